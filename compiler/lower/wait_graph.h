// The wait graph of a written plan, whoever wrote it, for the proof in compiler/plan/liveness.h and the order of its
// calls.
#pragma once

#include "compiler/plan/liveness.h"
#include "proto/plan.pb.h"

namespace oneflow {

// By classes: an actor of the graph stands for its instances on all ranks. InvalidArgument, naming actor or register
// and the number, if an index is out of range, or ports and registers do not name each other.
absl::StatusOr<WaitGraph> WaitGraphOf(const pb::ClassPlan& plan);

// Decides the order in which each class of ranks launches its calls, and writes it into the plan. `set` holds the
// classes and grids. Errors of OrderCalls and WaitGraphOf.
absl::Status OrderPlanCalls(const pb::PlanSet& set, pb::ClassPlan& plan);

// CheckLive on it, with the plan's name on errors.
absl::Status CheckPlanLive(const pb::ClassPlan& plan);

}  // namespace oneflow
