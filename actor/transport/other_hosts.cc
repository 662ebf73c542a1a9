#include "actor/transport/other_hosts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/transport/peer_network.h"
#include "actor/transport/process_bus.h"
#include "oneflow_core/queues.h"

namespace oneflow {

OtherHosts::OtherHosts(const pb::Program& program, int process, const JobMemory& memory, const ProgramIds& ids,
                       Listener& listener)
    : program_(program),
      process_(process),
      ids_(ids),
      listener_(listener),
      shipments_(program, process, memory),
      arrived_(program.plans_size(), 0) {
  FindFar();
  FindExchanges();
}

void OtherHosts::FindFar() {
  const auto& ranks = program_.ranks();
  int processes = 1;
  for (const pb::Rank& rank : ranks) processes = std::max(processes, rank.process() + 1);
  is_far_.assign(processes, false);
  const auto ours =
      std::find_if(ranks.begin(), ranks.end(), [this](const pb::Rank& rank) { return rank.process() == process_; });
  if (ours == ranks.end()) return;
  for (const pb::Rank& rank : ranks) {
    // One process may play several hosts.
    if (rank.process() != process_ && rank.host() != ours->host()) is_far_[rank.process()] = true;
  }
}

void OtherHosts::FindExchanges() {
  exchanges_.assign(is_far_.size(), false);
  for (const pb::Plan& plan : program_.plans()) {
    const auto process_of = [&](int actor) { return program_.ranks(plan.actors(actor).rank()).process(); };
    for (const pb::Register& reg : plan.registers()) {
      for (const int consumer : reg.consumers()) {
        const int from = process_of(reg.producer()), to = process_of(consumer);
        if (from == process_) exchanges_[to] = true;
        if (to == process_) exchanges_[from] = true;
      }
    }
  }
}

absl::Status OtherHosts::Open(const PeerNetwork& peers, CoreBudget& cores) {
  bool needed = false;
  for (size_t p = 0; p < is_far_.size(); ++p) needed = needed || (is_far_[p] && exchanges_[p]);
  if (!needed) return absl::OkStatus();
  const std::string& address = peers.address();
  OF_ASSIGN_OR_RETURN(channel_, DataChannel::Create({.process = process_,
                                                     .num_processes = peers.num_processes(),
                                                     .host = address.substr(0, address.rfind(':')),
                                                     .cores = &cores,
                                                     .is_secret = peers.is_secret()}));
  return absl::OkStatus();
}

absl::Status OtherHosts::Connect(int process, const pb::PeerData& peer) {
  if (!exchanges_[process]) return absl::OkStatus();
  const std::string& ours = channel_->announcement().channel();
  if (peer.address().empty() || peer.channel() == ours) return channel_->Connect(process, peer);
  return absl::FailedPreconditionError(absl::StrCat("process ", process, " sends data over '", peer.channel(),
                                                    "', process ", process_, " over '", ours, "'"));
}

void OtherHosts::Start() {
  if (channel_ != nullptr) channel_->Start(*this);
}

absl::Status OtherHosts::BringUpToDate(int plan, ProcessBus& bus) {
  if (shipments_.empty()) return absl::OkStatus();
  // Nobody else uses the places of a plan beside others, and its variables change between all of its runs.
  if (!program_.plans(plan).beside() && std::exchange(landed_plan_, plan) == plan) return absl::OkStatus();
  for (const Message& message : shipments_.InitialOf(plan)) {
    const pb::Actor& reader = program_.plans(plan).actors(message.actor);
    bus.SendInitial(AddressOf(reader.rank(), reader.queue()), message);
  }
  const int64_t expected = shipments_.NumInitialFromPeers(plan);
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait(lock, [&] { return arrived_[plan] >= expected || !interrupted_.ok(); });
  arrived_[plan] -= expected;
  return interrupted_;
}

void OtherHosts::Interrupt(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu_);
  interrupted_ = status;
  changed_.notify_all();
}

absl::StatusOr<absl::Span<char>> OtherHosts::RoomFor(DataChannel::Use use, const Message& message, int64_t num_bytes) {
  const std::optional<Message> known = ids_.FromPeer(message);
  const Landing* const landing = known.has_value() ? shipments_.LandingOf(*known) : nullptr;
  const bool valid = landing != nullptr && landing->has_slot(message.slot) && num_bytes >= landing->least_bytes() &&
                     num_bytes <= landing->slot_bytes() &&
                     (use == DataChannel::Use::kFilled || use == DataChannel::Use::kInitial);
  if (valid) return absl::MakeSpan(landing->slot(message.slot), landing->slot_bytes());
  if (landing == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(num_bytes, " bytes for plan ", message.plan, " actor ",
                                                   message.actor, " register ", message.register_id, " slot ",
                                                   message.slot, ", which is not here"));
  }
  const bool varies = landing->least_bytes() < landing->slot_bytes();
  const pb::Plan& plan = program_.plans(known->plan);
  const pb::Actor& actor = plan.actors(known->actor);
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", actor.rank(), " (", program_.ranks(actor.rank()).device(), "): plan '", plan.name(),
                   "' actor '", actor.name(), "': ", num_bytes, " bytes have come for slot ", message.slot,
                   " of register '", plan.registers(known->register_id).name(), "', where there is room for ",
                   landing->slot_bytes(), varies ? absl::StrCat(" and ", landing->least_bytes(), " must come") : ""));
}

void OtherHosts::OnArrived(int process, DataChannel::Use use, const Message& message) {
  const Message known = *ids_.FromPeer(message);
  if (use == DataChannel::Use::kInitial) {
    std::lock_guard<std::mutex> lock(mu_);
    ++arrived_[known.plan];
    return changed_.notify_all();
  }
  shipments_.LandingOf(known)->OnArrived(known, [&](const Message& filled) {
    if (!listener_.Deliver(filled).ok()) listener_.OnMessages(process, {&message, 1});  // says what is wrong
  });
}

}  // namespace oneflow
