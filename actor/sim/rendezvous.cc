#include "actor/sim/rendezvous.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "oneflow_core/union_find.h"

namespace oneflow {

Rendezvous::Rendezvous(const pb::Plan& plan) : group_of_(plan.actors_size(), -1) {
  UnionFind together(plan.actors_size());
  absl::flat_hash_map<std::pair<absl::string_view, int32_t>, int> first_of_call;  // node, communicator
  std::vector<bool> calls(plan.actors_size(), false);
  for (int a = 0; a < plan.actors_size(); ++a) {
    for (const pb::Instruction& instruction : plan.actors(a).instructions()) {
      if (instruction.kind() != pb::Instruction::COLLECTIVE) continue;
      const std::pair<absl::string_view, int32_t> call(instruction.node(), instruction.communicator());
      together.Unite(first_of_call.emplace(call, a).first->second, a);
      calls[a] = true;
    }
  }
  absl::flat_hash_map<int, int32_t> group_of_root;
  for (int a = 0; a < plan.actors_size(); ++a) {
    if (!calls[a]) continue;
    const auto [it, is_new] = group_of_root.emplace(together.Find(a), static_cast<int32_t>(groups_.size()));
    if (is_new) groups_.emplace_back();
    group_of_[a] = it->second;
    ++groups_[it->second].size;
  }
}

const std::vector<int32_t>& Rendezvous::Come(int32_t actor) {
  beginning_.clear();
  if (group_of_[actor] < 0) {
    beginning_.push_back(actor);
    return beginning_;
  }
  Group& group = groups_[group_of_[actor]];
  group.here.push_back(actor);
  if (group.here.size() < group.size) return beginning_;
  std::swap(beginning_, group.here);
  std::sort(beginning_.begin(), beginning_.end());
  return beginning_;
}

}  // namespace oneflow
