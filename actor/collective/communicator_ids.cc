#include "actor/collective/communicator_ids.h"

#include <map>

#include "actor/transport/peer_network.h"

namespace oneflow {
namespace {

absl::Status CheckCommunicators(const pb::Program& plans) {
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
    const pb::Program& plans, int process, PeerNetwork* peers,
    const std::function<absl::StatusOr<std::string>()>& make_id) {
  OF_RETURN_IF_ERROR(CheckCommunicators(plans));
  const auto maker = [&](int c) { return plans.ranks(plans.communicators(c).ranks(0)).process(); };
  pb::PeerPlan mine;
  for (int c = 0; c < plans.communicators_size(); ++c) {
    if (maker(c) != process) continue;
    pb::CommunicatorId& id = *mine.add_communicator_ids();
    *id.mutable_ranks() = plans.communicators(c).ranks();
    OF_ASSIGN_OR_RETURN_AT(*id.mutable_id(), make_id(), absl::StrCat("communicator ", c));
  }
  std::vector<pb::PeerPlan> made(process + 1);
  made[process] = mine;
  if (peers != nullptr) {
    OF_ASSIGN_OR_RETURN(made, peers->Exchange(mine));
  }
  std::map<std::vector<int>, std::string> known;
  for (const pb::PeerPlan& plan : made) {
    for (const pb::CommunicatorId& id : plan.communicator_ids()) {
      known.try_emplace({id.ranks().begin(), id.ranks().end()}, id.id());
    }
  }
  std::vector<std::string> ids;
  for (int c = 0; c < plans.communicators_size(); ++c) {
    const auto& ranks = plans.communicators(c).ranks();
    const auto id = known.find({ranks.begin(), ranks.end()});
    if (id == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat("communicator ", c, ": process ", maker(c), " made no id for it"));
    }
    ids.push_back(id->second);
  }
  return ids;
}

}  // namespace oneflow
