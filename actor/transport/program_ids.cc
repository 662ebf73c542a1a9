#include "actor/transport/program_ids.h"

#include <algorithm>

namespace oneflow {
namespace {

// In a program of all processes ids are indices.
template <typename Items>
std::vector<int32_t> IdsOf(const Items& items, bool whole) {
  std::vector<int32_t> ids;
  for (const auto& item : items) ids.push_back(whole ? static_cast<int32_t>(ids.size()) : item.id());
  return ids;
}

// The position of `id`, or -1.
int32_t Find(const std::vector<int32_t>& ids, int32_t id) {
  const auto it = std::lower_bound(ids.begin(), ids.end(), id);
  return it == ids.end() || *it != id ? -1 : static_cast<int32_t>(it - ids.begin());
}

}  // namespace

int32_t ActorId(const pb::Program& program, int plan, int32_t actor) {
  return program.has_process() ? program.plans(plan).actors(actor).id() : actor;
}

void NumberAsInJob(const pb::Program& program, int plan, pb::WaitingActor& actor) {
  if (!program.has_process()) return;
  const auto register_id = [&](int32_t index) { return program.plans(plan).registers(index).id(); };
  actor.set_actor(ActorId(program, plan, actor.actor()));
  for (pb::SlotsOf& held : *actor.mutable_held()) held.set_register_(register_id(held.register_()));
  for (pb::SlotsOf& filled : *actor.mutable_filled()) filled.set_register_(register_id(filled.register_()));
  for (pb::Wait& wait : *actor.mutable_waits()) {
    if (wait.kind() != pb::Wait::TURN) wait.set_register_(register_id(wait.register_()));
    for (pb::WaitPeer& peer : *wait.mutable_peers()) peer.set_actor(ActorId(program, plan, peer.actor()));
  }
}

ProgramIds::ProgramIds(const pb::Program& program) {
  const bool whole = !program.has_process();
  for (const pb::Plan& plan : program.plans()) {
    plans_.push_back({IdsOf(plan.actors(), whole), IdsOf(plan.registers(), whole)});
  }
}

Message ProgramIds::ForPeer(Message message) const {
  const Plan& plan = plans_[message.plan];
  message.actor = plan.actors[message.actor];
  message.register_id = plan.registers[message.register_id];
  return message;
}

std::optional<Message> ProgramIds::FromPeer(Message message) const {
  if (message.plan >= plans_.size()) return std::nullopt;
  message.actor = Find(plans_[message.plan].actors, message.actor);
  message.register_id = Find(plans_[message.plan].registers, message.register_id);
  if (message.actor < 0 || message.register_id < 0) return std::nullopt;
  return message;
}

}  // namespace oneflow
