#include "actor/collective/communicator_ids.h"

#include "actor/transport/peer_network.h"

namespace oneflow {
namespace {

absl::Status CheckCommunicators(const pb::PlanSet& plans) {
  for (int c = 0; c < plans.communicators_size(); ++c) {
    const std::string where = absl::StrCat("communicator ", c, " of job '", plans.job(), "'");
    if (plans.communicators(c).ranks().empty()) return absl::InvalidArgumentError(absl::StrCat(where, " has no ranks"));
    for (const int rank : plans.communicators(c).ranks()) {
      if (rank >= 0 && rank < plans.ranks_size()) continue;
      return absl::InvalidArgumentError(absl::StrCat(where, " has rank ", rank, "; there are ", plans.ranks_size()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> AgreeOnCommunicatorIds(
    const pb::PlanSet& plans, int process, PeerNetwork* peers,
    const std::function<absl::StatusOr<std::string>()>& make_id) {
  OF_RETURN_IF_ERROR(CheckCommunicators(plans));
  const auto maker = [&](int c) { return plans.ranks(plans.communicators(c).ranks(0)).process(); };
  pb::PeerPlan mine;
  for (int c = 0; c < plans.communicators_size(); ++c) {
    if (maker(c) != process) continue;
    OF_ASSIGN_OR_RETURN_AT(*mine.add_communicator_ids(), make_id(), absl::StrCat("communicator ", c));
  }
  std::vector<pb::PeerPlan> made(process + 1);
  made[process] = mine;
  if (peers != nullptr) {
    OF_ASSIGN_OR_RETURN(made, peers->Exchange(mine));
  }
  std::vector<int> taken(made.size(), 0);
  std::vector<std::string> ids;
  for (int c = 0; c < plans.communicators_size(); ++c) {
    const int from = maker(c);
    const bool is_known = from >= 0 && from < static_cast<int>(made.size());
    const int available = is_known ? made[from].communicator_ids_size() : 0;
    if (!is_known || taken[from] == available) {
      return absl::InvalidArgumentError(
          absl::StrCat("communicator ", c, ": process ", from, " made ", available, " ids, the plan gives it more"));
    }
    ids.push_back(made[from].communicator_ids(taken[from]++));
  }
  return ids;
}

}  // namespace oneflow
