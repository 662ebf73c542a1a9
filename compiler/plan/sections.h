// What a schedule puts in order: of every chunk of the model forward, the gradients of its inputs and those of its
// weights, each by itself where the schedule tells them apart.
#pragma once

#include <optional>
#include <vector>

#include "compiler/plan/precedence.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/graph.h"

namespace oneflow {

// 0: nothing that is scheduled.
int SectionOf(int chunk, ActionKind kind);
// REQUIRES: section > 0.
ActionKind KindOfSection(int section);

// Of every node, from its role and chunk. Only what is computed for every micro-batch is scheduled. Where the schedule
// has no W, gradients of weights belong to B.
std::vector<int> FindSections(const Graph& graph, const Precedence& order, const Schedule& schedule, int micro_batches);

// The sections that an action runs, in order: B is I and W where the schedule has these.
std::vector<int> SectionsOf(const Action& action, bool splits_backward);

// Whether some action of the schedule is I or W.
bool SplitsBackward(const Schedule& schedule);

}  // namespace oneflow
