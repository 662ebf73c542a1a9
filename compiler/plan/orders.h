// A pipeline's schedule as an order of acts: what a rank computes, action by action. An action is one act of every
// chain of its section, from the lowest level up.
#pragma once

#include <vector>

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// One per class of ranks on the plan's mesh that has something to compute. REQUIRES: input.schedule is one of the
// plan's micro-batches and stages; actors are those of chains, by the same numbers.
std::vector<PhysicalOrder> OrdersOf(const PlanInput& input, const std::vector<PhysicalActor>& actors);

// How many acts of `first` there are at most before the one of `second` that reads what the earliest of them made, in
// an order that has both; 0 if none has.
int MostAhead(const std::vector<PhysicalOrder>& orders, int first, int second);

}  // namespace oneflow
