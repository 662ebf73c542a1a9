#include "actor/sim/rendezvous.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "oneflow_core/union_find.h"

namespace oneflow {

namespace {

// A number for every communicator: the same for communicators with the same members, or the same representatives.
std::vector<int> NumbersOf(const pb::Program& program, const std::vector<int>* stands_for) {
  std::map<std::vector<int>, int> known;
  std::vector<int> numbers;
  for (int c = 0; c < program.communicators_size(); ++c) {
    std::vector<int> members(program.communicators(c).ranks().begin(), program.communicators(c).ranks().end());
    if (stands_for == nullptr) {
      numbers.push_back(c);
      continue;
    }
    for (int& member : members) member = (*stands_for)[member];
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    numbers.push_back(known.emplace(std::move(members), c).first->second);
  }
  return numbers;
}

}  // namespace

Rendezvous::Rendezvous(const pb::Program& program, int plan_index, const std::vector<int>* stands_for)
    : group_of_(program.plans(plan_index).actors_size(), -1) {
  const pb::Plan& plan = program.plans(plan_index);
  const std::vector<int> numbers = NumbersOf(program, stands_for);
  const auto number_of = [&](int32_t communicator) {
    const bool known = communicator >= 0 && communicator < static_cast<int>(numbers.size());
    return known ? numbers[communicator] : communicator;
  };
  UnionFind together(plan.actors_size());
  absl::flat_hash_map<std::pair<absl::string_view, int32_t>, int> first_of_call;  // node, communicator
  std::vector<bool> calls(plan.actors_size(), false);
  for (int a = 0; a < plan.actors_size(); ++a) {
    for (const pb::Instruction& instruction : plan.actors(a).instructions()) {
      if (instruction.kind() != pb::Instruction::COLLECTIVE) continue;
      const std::pair<absl::string_view, int32_t> call(instruction.node(), number_of(instruction.communicator()));
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

std::vector<int32_t> Rendezvous::Missing(int32_t actor) const {
  std::vector<int32_t> missing;
  if (group_of_[actor] < 0) return missing;
  const std::vector<int32_t>& here = groups_[group_of_[actor]].here;
  for (size_t a = 0; a < group_of_.size(); ++a) {
    const auto other = static_cast<int32_t>(a);
    const bool meets = group_of_[a] == group_of_[actor];
    if (meets && std::find(here.begin(), here.end(), other) == here.end()) missing.push_back(other);
  }
  return missing;
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
