#include "actor/collective/collectives.h"

namespace oneflow {

absl::StatusOr<CollectiveKind> ParseCollective(absl::string_view name) {
  constexpr std::pair<absl::string_view, CollectiveKind> kNames[] = {{"all-reduce", CollectiveKind::kAllReduce},
                                                                     {"reduce-scatter", CollectiveKind::kReduceScatter},
                                                                     {"all-gather", CollectiveKind::kAllGather},
                                                                     {"broadcast", CollectiveKind::kBroadcast},
                                                                     {"exchange", CollectiveKind::kExchange}};
  for (const auto& [known, kind] : kNames) {
    if (name == known) return kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("collective '", name, "' is unknown"));
}

}  // namespace oneflow
