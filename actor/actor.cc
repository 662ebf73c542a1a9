#include "actor/actor.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

PortSpec MakePort(const pb::Plan& plan, const pb::Port& port) {
  const pb::Register& reg = plan.registers(port.register_());
  return {.register_id = port.register_(),
          .acts_per_slot = port.acts_per_slot(),
          .slots = reg.slots(),
          .initially_filled = reg.initially_filled()};
}

std::vector<std::pair<int32_t, int32_t>> Index(const std::vector<PortSpec>& ports) {
  std::vector<std::pair<int32_t, int32_t>> index;
  for (size_t i = 0; i < ports.size(); ++i) index.push_back({ports[i].register_id, static_cast<int32_t>(i)});
  std::sort(index.begin(), index.end());
  return index;
}

}  // namespace

ActorSpec MakeActorSpec(const pb::Plan& plan, int plan_index, int actor) {
  const pb::Actor& from = plan.actors(actor);
  ActorSpec spec{.plan = static_cast<uint16_t>(plan_index),
                 .id = actor,
                 .name = from.name(),
                 .acts_per_step = from.acts_per_step()};
  for (const pb::Port& port : from.inputs()) {
    spec.inputs.push_back(MakePort(plan, port));
    spec.inputs.back().peers = {plan.registers(port.register_()).producer()};
  }
  for (const pb::Port& port : from.outputs()) {
    spec.outputs.push_back(MakePort(plan, port));
    const auto& consumers = plan.registers(port.register_()).consumers();
    spec.outputs.back().peers.assign(consumers.begin(), consumers.end());
  }
  return spec;
}

Actor::Actor(ActorSpec spec)
    : spec_(std::move(spec)), input_of_register_(Index(spec_.inputs)), output_of_register_(Index(spec_.outputs)) {
  for (const PortSpec& port : spec_.inputs) {
    inputs_.push_back({.available = port.initially_filled, .number = static_cast<uint8_t>(port.initially_filled)});
    missing_ += port.initially_filled == 0;
  }
  for (const PortSpec& port : spec_.outputs) {
    Port state{.available = port.slots - port.initially_filled,
               .slot = port.initially_filled % port.slots,
               .number = static_cast<uint8_t>(port.initially_filled)};
    state.frees_due.resize(port.slots);
    if (port.peers.empty()) {
      state.available = port.slots;  // nobody reads their initial contents
    } else {
      std::fill_n(state.frees_due.begin(), port.initially_filled, static_cast<int32_t>(port.peers.size()));
    }
    missing_ += state.available == 0;
    outputs_.push_back(std::move(state));
  }
}

int Actor::Find(const std::vector<std::pair<int32_t, int32_t>>& ports, int32_t register_id) {
  const auto it = std::lower_bound(ports.begin(), ports.end(), std::pair<int32_t, int32_t>(register_id, 0));
  return it == ports.end() || it->first != register_id ? -1 : it->second;
}

void Actor::Add(Port& port) {
  if (++port.available == 1 && port.position == 0) --missing_;
}

absl::Status Actor::Unexpected(const Message& message, const std::string& why) const {
  return absl::InvalidArgumentError(absl::StrCat(
      "actor ", spec_.id, " '", spec_.name, "': message '", message.kind == Message::Kind::kFilled ? "filled" : "freed",
      "' for register ", message.register_id, " slot ", message.slot, ": ", why));
}

absl::Status Actor::WrongNumber(const Message& message, uint8_t number) const {
  return Unexpected(message, absl::StrCat("it is about filling ", message.number, " (modulo 256), and not ", number));
}

absl::Status Actor::OnMessage(const Message& message) {
  const bool filled = message.kind == Message::Kind::kFilled;
  const int port = filled ? InputOf(message.register_id) : OutputOf(message.register_id);
  if (port < 0) return Unexpected(message, absl::StrCat("it is no ", filled ? "input" : "output", " of this actor"));
  return OnMessage(message, port);
}

absl::Status Actor::OnMessage(const Message& message, int port) {
  return message.kind == Message::Kind::kFilled ? OnFilled(message, port) : OnFreed(message, port);
}

absl::Status Actor::OnFilled(const Message& message, int i) {
  Port& port = inputs_[i];
  const int32_t slots = spec_.inputs[i].slots;
  const int32_t filled = port.available + (port.position > 0 ? 1 : 0);
  if (filled >= slots) return Unexpected(message, absl::StrCat("all ", slots, " slots are filled already"));
  const int32_t next = (port.slot + filled) % slots;
  if (message.slot != next) return Unexpected(message, absl::StrCat("slot ", next, " is next"));
  if (message.number != port.number) return WrongNumber(message, port.number);
  ++port.number;
  Add(port);
  return absl::OkStatus();
}

absl::Status Actor::OnFreed(const Message& message, int i) {
  Port& port = outputs_[i];
  if (message.slot < 0 || message.slot >= spec_.outputs[i].slots) {
    return Unexpected(message, absl::StrCat("the register has ", spec_.outputs[i].slots, " slots"));
  }
  if (port.frees_due[message.slot] == 0) return Unexpected(message, "nobody holds this slot");
  // Slots are filled in turn, the last one before `slot`.
  const int32_t since = port.slot - 1 - message.slot;
  const auto number = static_cast<uint8_t>(port.number - 1 - (since < 0 ? since + spec_.outputs[i].slots : since));
  if (message.number != number) return WrongNumber(message, number);
  if (--port.frees_due[message.slot] == 0) Add(port);
  return absl::OkStatus();
}

template <typename Send>
void Actor::EndAct(const Send& send) {
  int32_t link = 0;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Port& port = outputs_[i];
    const PortSpec& spec = spec_.outputs[i];
    const int32_t consumers = static_cast<int32_t>(spec.peers.size());
    link += consumers;
    if (port.position == 0) --port.available;
    if (++port.position < spec.acts_per_slot) continue;
    for (int32_t c = 0; c < consumers; ++c) {
      send(Message{Message::Kind::kFilled, port.number, spec_.plan, spec.peers[c], spec.register_id, port.slot},
           link - consumers + c);
    }
    ++port.number;
    port.frees_due[port.slot] = consumers;
    if (consumers == 0) ++port.available;
    port.position = 0;
    port.slot = (port.slot + 1) % spec.slots;
    missing_ += port.available == 0;
  }
  for (size_t i = 0; i < inputs_.size(); ++i, ++link) {
    Port& port = inputs_[i];
    const PortSpec& spec = spec_.inputs[i];
    if (port.position == 0) --port.available;
    if (++port.position < spec.acts_per_slot) continue;
    const auto number = static_cast<uint8_t>(port.number - 1 - port.available);  // the oldest of those that have come
    send(Message{Message::Kind::kFreed, number, spec_.plan, spec.peers[0], spec.register_id, port.slot}, link);
    port.position = 0;
    port.slot = (port.slot + 1) % spec.slots;
    missing_ += port.available == 0;
  }
  ++act_;
  --acts_left_;
}

void Actor::Act(OutgoingMessages& outbox) {
  EndAct([&](const Message& message, int32_t) { outbox.push_back(message); });
}

void Actor::Act(OutgoingMessages& outbox, std::vector<int32_t>& links) {
  EndAct([&](const Message& message, int32_t link) {
    outbox.push_back(message);
    links.push_back(link);
  });
}

bool Actor::Uses(int32_t register_id, int32_t slot) const {
  const int in = InputOf(register_id), out = OutputOf(register_id);
  return (in >= 0 && inputs_[in].slot == slot) || (out >= 0 && outputs_[out].slot == slot);
}

bool Actor::done() const {
  if (acts_left_ > 0) return false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].available != spec_.inputs[i].initially_filled) return false;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const PortSpec& spec = spec_.outputs[i];
    if (outputs_[i].available != spec.slots - (spec.peers.empty() ? 0 : spec.initially_filled)) return false;
  }
  return true;
}

void Actor::AddWaits(const pb::Plan& plan, pb::WaitingActor& to) const {
  const auto add = [&](pb::Wait::Kind kind, const PortSpec& spec, int32_t slot, int32_t missing) {
    pb::Wait& wait = *to.add_waits();
    wait.set_kind(kind);
    wait.set_register_(spec.register_id);
    wait.set_name(plan.registers(spec.register_id).name());
    wait.set_slot(slot);
    wait.set_missing(missing);
    for (const int32_t peer : spec.peers) *wait.add_peers() = PeerOf(plan, peer);
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const bool at_rest = inputs_[i].available >= spec_.inputs[i].initially_filled;
    if (acts_left_ > 0 ? inputs_[i].available > 0 || inputs_[i].position > 0 : at_rest) continue;
    add(pb::Wait::DATA, spec_.inputs[i], (inputs_[i].slot + inputs_[i].available) % spec_.inputs[i].slots, 1);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const PortSpec& spec = spec_.outputs[i];
    const bool at_rest = outputs_[i].available == spec.slots - (spec.peers.empty() ? 0 : spec.initially_filled);
    if (acts_left_ > 0 ? outputs_[i].available > 0 || outputs_[i].position > 0 : at_rest) continue;
    // Consumers free in turn, so the awaited slot is the next one in line after the available ones.
    const int32_t slot = (outputs_[i].slot + outputs_[i].available) % spec.slots;
    add(pb::Wait::CREDIT, spec, slot, outputs_[i].frees_due[slot]);
  }
}

void Actor::AddSlots(pb::WaitingActor& to) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    pb::SlotsOf& held = *to.add_held();
    held.set_register_(spec_.inputs[i].register_id);
    const int32_t count = inputs_[i].available + (inputs_[i].position > 0 ? 1 : 0);
    for (int32_t s = 0; s < count; ++s) held.add_slots((inputs_[i].slot + s) % spec_.inputs[i].slots);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    pb::SlotsOf& filled = *to.add_filled();
    filled.set_register_(spec_.outputs[i].register_id);
    for (int32_t s = 0; s < spec_.outputs[i].slots; ++s) {
      if (outputs_[i].frees_due[s] > 0) filled.add_slots(s);
    }
  }
}

pb::WaitingActor Actor::Waits(const pb::Plan& plan) const {
  pb::WaitingActor result;
  result.set_actor(spec_.id);
  result.set_name(spec_.name);
  result.set_step(step());
  result.set_micro_batch(micro_batch());
  result.set_acts_left(acts_left_);
  if (!done() && !ready()) AddWaits(plan, result);
  AddSlots(result);
  return result;
}

std::string Actor::WaitsFor(const pb::Plan& plan) const {
  if (done()) return act_ == 0 ? "idle" : "done";
  return WaitText(Waits(plan));
}

pb::WaitPeer PeerOf(const pb::Plan& plan, int32_t actor) {
  pb::WaitPeer peer;
  peer.set_actor(actor);
  peer.set_name(plan.actors(actor).name());
  peer.set_rank(plan.actors(actor).rank());
  peer.set_queue(plan.actors(actor).queue());
  return peer;
}

std::string WaitText(const pb::Wait& wait) {
  constexpr int kMostPeers = 4;
  std::vector<std::string> peers;
  for (const pb::WaitPeer& peer : wait.peers()) {
    if (peers.size() == kMostPeers) {
      peers.push_back(absl::StrCat(wait.peers_size() - kMostPeers, " more"));
      break;
    }
    peers.push_back(absl::StrCat("actor ", peer.actor(), " '", peer.name(), "' on rank ", peer.rank()));
  }
  const std::string who = absl::StrJoin(peers, ", ");
  if (wait.kind() == pb::Wait::TURN) return absl::StrCat("its turn, which is that of ", who);
  const std::string slot = absl::StrCat("register ", wait.register_(), " '", wait.name(), "' slot ", wait.slot());
  if (wait.kind() == pb::Wait::DATA) return absl::StrCat(slot, " to be filled by ", who);
  return absl::StrCat(slot, " to be freed by ",
                      wait.missing() < wait.peers_size() ? absl::StrCat(wait.missing(), " of ") : "", who);
}

std::string WaitText(const pb::WaitingActor& actor) {
  if (actor.waits().empty()) return actor.acts_left() > 0 ? "ready" : "has no acts left for its input";
  const auto text = [](std::string* out, const pb::Wait& wait) { *out += WaitText(wait); };
  return absl::StrCat("waits for ", absl::StrJoin(actor.waits(), "; ", text), " (step ", actor.step(), ", micro-batch ",
                      actor.micro_batch(), ", ", actor.acts_left(), " acts left)");
}

}  // namespace oneflow
