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
    inputs_.push_back({.available = port.initially_filled});
    missing_ += port.initially_filled == 0;
  }
  for (const PortSpec& port : spec_.outputs) {
    Port state{.available = port.slots - port.initially_filled, .slot = port.initially_filled % port.slots};
    state.frees_due.resize(port.slots);
    if (port.peers.empty()) {
      state.available = port.slots;  // nobody reads what was there at the beginning
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
  Add(port);
  return absl::OkStatus();
}

absl::Status Actor::OnFreed(const Message& message, int i) {
  Port& port = outputs_[i];
  if (message.slot < 0 || message.slot >= spec_.outputs[i].slots) {
    return Unexpected(message, absl::StrCat("the register has ", spec_.outputs[i].slots, " slots"));
  }
  if (port.frees_due[message.slot] == 0) return Unexpected(message, "nobody holds this slot");
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
      send(Message{Message::Kind::kFilled, 0, spec_.plan, spec.peers[c], spec.register_id, port.slot},
           link - consumers + c);
    }
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
    send(Message{Message::Kind::kFreed, 0, spec_.plan, spec.peers[0], spec.register_id, port.slot}, link);
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

std::string Actor::WaitsFor(const pb::Plan& plan) const {
  if (done()) return act_ == 0 ? "idle" : "done";
  if (ready()) return "ready";
  const auto describe = [&](int32_t id) { return absl::StrCat("register ", id, " '", plan.registers(id).name(), "'"); };
  std::vector<std::string> waits;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const bool at_rest = inputs_[i].available == spec_.inputs[i].initially_filled;
    if (acts_left_ > 0 ? inputs_[i].available > 0 || inputs_[i].position > 0 : at_rest) continue;
    const int32_t producer = spec_.inputs[i].peers[0];
    waits.push_back(absl::StrCat(describe(spec_.inputs[i].register_id), " slot ", inputs_[i].slot,
                                 " to be filled by actor ", producer, " '", plan.actors(producer).name(), "' on rank ",
                                 plan.actors(producer).rank()));
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const PortSpec& spec = spec_.outputs[i];
    const bool at_rest = outputs_[i].available == spec.slots - spec.initially_filled;
    if (acts_left_ > 0 ? outputs_[i].available > 0 || outputs_[i].position > 0 : at_rest) continue;
    // Consumers free in turn, so the slot that is next in line after the available ones is the one that is awaited.
    const int32_t slot = (outputs_[i].slot + outputs_[i].available) % spec.slots;
    waits.push_back(absl::StrCat(describe(spec.register_id), " slot ", slot, " to be freed by ",
                                 outputs_[i].frees_due[slot], " of actors ", absl::StrJoin(spec.peers, ",")));
  }
  return absl::StrCat("waits for ", absl::StrJoin(waits, "; "), " (step ", step(), ", micro-batch ", micro_batch(),
                      ", ", acts_left_, " acts left)");
}

}  // namespace oneflow
