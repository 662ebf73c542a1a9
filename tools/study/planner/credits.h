// What credits a plan's registers should have, by what its acts were measured to take: `oneflow plan credits`.
#pragma once

#include <map>
#include <string>

#include "actor/trace/trace.h"
#include "compiler/plan/solve_credits.h"
#include "oneflow_core/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Of every actor of `plan` what an act of it takes: the median of each of its ranks, and of these the largest, since an
// actor of the wait graph stands for all. What each queue of each class of ranks does, it does one at a time.
// InvalidArgument, naming plan or actor, if the trace is not one of this plan, or of launches
// (tools/job/act_times.h). REQUIRES: CheckPlanSet(set) is OK, `plan` is one of `set`, and the trace was checked.
absl::StatusOr<ActTimes> MeasuredTimes(const pb::PlanSet& set, const pb::ClassPlan& plan, const Trace& trace);

struct CreditsAnswer {
  // For people: the best period with the slots that the plan has, the circle or queue that bounds it, what a slot more
  // would gain; and the fewest slots that reach the goal.
  std::string text;
  // These, by register, of all whose slots may be changed.
  std::map<std::string, int> slots;
};

// Errors of SolveCredits. REQUIRES: as above.
absl::StatusOr<CreditsAnswer> AnswerCredits(const pb::PlanSet& set, const pb::ClassPlan& plan, const ActTimes& times,
                                            const CreditGoal& goal = {});

}  // namespace oneflow
