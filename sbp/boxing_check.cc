#include "sbp/boxing_check.h"

#include <algorithm>
#include <optional>

#include "sbp/slices.h"

namespace oneflow {

absl::Status CheckMeansStay(const DistType& from, const DistType& to) {
  const std::vector<Axis>& axes = from.placement.axes();
  for (size_t a = 0; a < axes.size(); ++a) {
    if (!from.sbp[a].is_mean()) continue;
    const std::vector<Axis>& there = to.placement.axes();
    const auto match = std::find(there.begin(), there.end(), axes[a]);
    if (match != there.end() && to.sbp[match - there.begin()].is_mean()) continue;
    return absl::InvalidArgumentError(absl::StrCat("each rank along '", axes[a].name, "' has a tensor of its own (",
                                                   from.ToString(), "), which is read as one of all (", to.ToString(),
                                                   ")"));
  }
  return absl::OkStatus();
}

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
  return CheckMeansStay(from, to);
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
