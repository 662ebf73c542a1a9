// The units that a schedule orders: for every chunk of the model forward, the gradients of its inputs and those of its
// weights, separately where the schedule separates them.
#pragma once

#include <optional>
#include <vector>

#include "compiler/plan/precedence.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/graph.h"

namespace oneflow {

// 0: not scheduled.
int SectionOf(int chunk, ActionKind kind);
// REQUIRES: section > 0.
ActionKind KindOfSection(int section);

// By node, from its role and chunk. Only nodes that are computed for every micro-batch are scheduled. Where the
// schedule has no W, gradients of weights belong to B.
std::vector<int> FindSections(const Graph& graph, const Precedence& order, const Schedule& schedule, int micro_batches);

// The sections that an action runs, in order: B is I and W where the schedule has these.
std::vector<int> SectionsOf(const Action& action, bool splits_backward);

// Whether some action of the schedule is I or W.
bool SplitsBackward(const Schedule& schedule);

}  // namespace oneflow
