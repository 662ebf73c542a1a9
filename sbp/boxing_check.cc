#include "sbp/boxing_check.h"

#include <algorithm>
#include <optional>

#include "sbp/slices.h"

namespace oneflow {

absl::Status CheckBoxing(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology) {
  const int num_ranks = topology.num_ranks();
  for (const DistType* dist : {&from, &to}) {
    OF_RETURN_IF_ERROR_AT(CheckDistType(type.shape, *dist),
                          absl::StrCat("boxing ", type.ToString(), " from ", from.ToString(), " to ", to.ToString()));
    const std::vector<int>& ranks = dist->placement.ranks();
    const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end());
    if (*least >= 0 && *most < num_ranks) continue;
    return absl::InvalidArgumentError(absl::StrCat("placement ", dist->placement.ToString(), ": rank ",
                                                   *least < 0 ? *least : *most, " is not among the ", num_ranks,
                                                   " of the topology"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Reduction> ReductionOf(const DistType& from, const DistType& to) {
  std::optional<Reduction> reduction;
  for (const DistType* dist : {&from, &to}) {
    for (const Sbp& sbp : dist->sbp) {
      if (!sbp.is_partial()) continue;
      if (reduction.has_value() && *reduction != sbp.reduction()) {
        return absl::UnimplementedError(
            absl::StrCat("boxing ", from.ToString(), " to ", to.ToString(), ": partial axes of different reductions"));
      }
      reduction = sbp.reduction();
    }
  }
  return reduction.value_or(Reduction::kSum);
}

}  // namespace oneflow
