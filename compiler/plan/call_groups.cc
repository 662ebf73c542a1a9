#include "compiler/plan/call_groups.h"

#include <algorithm>
#include <set>

namespace oneflow {
namespace {

bool SameRanks(const Graph& graph, const PhysicalInstruction& a, const PhysicalInstruction& b) {
  const auto from = [&](const PhysicalInstruction& x) -> const Placement& {
    return graph.value(graph.node(x.node).inputs[0]).dist->placement;
  };
  return from(a) == from(b) && *graph.node(a.node).placement == *graph.node(b.node).placement;
}

// The end of the group that begins with `first`.
int EndOfGroup(const Graph& graph, const PhysicalActor& actor, int first) {
  std::set<ValueId> made;
  int end = first;
  for (; end < static_cast<int>(actor.instructions.size()); ++end) {
    const PhysicalInstruction& x = actor.instructions[end];
    const Node& node = graph.node(x.node);
    const bool waits =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return made.contains(id); });
    if (!SameRanks(graph, actor.instructions[first], x) || waits) break;
    made.insert(node.outputs.begin(), node.outputs.end());
  }
  return end - 1;
}

}  // namespace

void GroupCalls(const Graph& graph, PhysicalPlan& plan) {
  for (PhysicalActor& actor : plan.actors) {
    if (!actor.senders.has_value()) continue;  // has boxings by sending, and nothing else
    for (int first = 0; first < static_cast<int>(actor.instructions.size());) {
      const int last = EndOfGroup(graph, actor, first);
      for (int i = first; i <= last && last > first; ++i) {
        actor.instructions[i].group_begin = first;
        actor.instructions[i].group_end = last;
      }
      first = last + 1;
    }
  }
}

}  // namespace oneflow
