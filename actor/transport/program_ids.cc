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
