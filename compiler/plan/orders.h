// The schedule of a pipeline as an order of acts: what a rank computes, action by action. An action is one act of every
// chain of its section, from the lowest level up.
#pragma once

#include <vector>

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// One per class of ranks on the plan's mesh that computes. REQUIRES: input.schedule is one of the plan's micro-batches
// and stages; actors are those of chains, by the same numbers.
std::vector<PhysicalOrder> OrdersOf(const PlanInput& input, const std::vector<PhysicalActor>& actors);

// The places of every actor's acts in orders.
class ActPlaces {
 public:
  ActPlaces() = default;
  ActPlaces(const std::vector<PhysicalOrder>& orders, size_t num_actors);

  bool empty() const { return of_actor_.empty(); }
  // The most acts of `first` that stand before the act of `second` that reads the earliest of them, in an order that
  // has both; 0 if none has. Linear in the acts of both.
  int MostAhead(int first, int second) const;

 private:
  struct InOrder {
    size_t order = 0;
    std::vector<size_t> places;
  };
  std::vector<std::vector<InOrder>> of_actor_;  // by ascending order
};

}  // namespace oneflow
