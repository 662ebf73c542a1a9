#include "tools/job/act_times.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/job/median.h"

namespace oneflow {

absl::StatusOr<std::map<int, double>> MedianSeconds(const Trace& trace, int plan) {
  for (const pb::Rank& rank : trace.head.program().ranks()) {
    if (absl::StartsWith(rank.device(), "cpu:")) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("its acts on ", rank.device(), " are launches, which do not say what the device took"));
  }
  std::map<int, std::vector<double>> acts;
  for (const TracedAct& act : trace.acts) {
    if (act.plan == plan) acts[act.actor].push_back(1e-9 * static_cast<double>(act.end_ns - act.begin_ns));
  }
  std::map<int, double> seconds;
  for (auto& [actor, values] : acts) seconds[actor] = Median(std::move(values));
  return seconds;
}

}  // namespace oneflow
