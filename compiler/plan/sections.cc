#include "compiler/plan/sections.h"

#include <algorithm>

#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

ActionKind KindOf(const Node& node, bool splits_backward) {
  if (IsForward(node)) return ActionKind::kForward;
  if (!splits_backward) return ActionKind::kBackward;
  // Recomputation belongs to the gradients of inputs, the first of which waits for it.
  const bool of_weight = node.role == Role::kWeightGradient || node.role == Role::kReduction;
  return of_weight ? ActionKind::kWeightGradient : ActionKind::kInputGradient;
}

}  // namespace

int SectionOf(int chunk, ActionKind kind) { return 1 + 4 * chunk + static_cast<int>(kind); }

ActionKind KindOfSection(int section) { return static_cast<ActionKind>((section - 1) % 4); }

bool SplitsBackward(const Schedule& schedule) {
  return std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [](const std::vector<Action>& actions) {
    return std::any_of(actions.begin(), actions.end(), [](const Action& x) {
      return x.kind == ActionKind::kInputGradient || x.kind == ActionKind::kWeightGradient;
    });
  });
}

std::vector<int> SectionsOf(const Action& action, bool splits_backward) {
  if (action.kind != ActionKind::kBackward || !splits_backward) return {SectionOf(action.chunk, action.kind)};
  return {SectionOf(action.chunk, ActionKind::kInputGradient), SectionOf(action.chunk, ActionKind::kWeightGradient)};
}

std::vector<int> FindSections(const Graph& graph, const Precedence& order, const Schedule& schedule,
                              int micro_batches) {
  const bool splits = SplitsBackward(schedule);
  std::vector<int> sections(graph.num_nodes(), 0);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const bool every = micro_batches == 1 || order.act_rate[id] == Rate::kMicroBatch;
    if (!QueueKindOf(order.queue[id]).is_main || order.IsVariable(id) || IsUpdate(node) || !every || node.chunk < 0)
      continue;
    sections[id] = SectionOf(node.chunk, KindOf(node, splits));
  }
  return sections;
}

}  // namespace oneflow
