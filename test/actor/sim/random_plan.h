// Plans drawn at random, live ones and dead ones: actors that act once a step or per micro-batch, registers between any
// two, with rates that fit, few slots, and some filled at first.
#pragma once

#include <random>

#include "absl/strings/str_cat.h"
#include "test/actor/test_plan.h"

namespace oneflow::testing {

inline TestPlan RandomPlan(uint32_t seed, int ranks) {
  std::mt19937 random(seed);
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  const int micro_batches = draw(1, 4), actors = draw(2, 8), registers = draw(1, 9);
  TestPlan plan(std::vector<int>(ranks, 0), micro_batches);
  for (int a = 0; a < actors; ++a) {
    plan.Actor(draw(0, ranks - 1), absl::StrCat("a", a), draw(0, 2) == 0 ? 1 : micro_batches, draw(0, 2));
  }
  for (int r = 0; r < registers; ++r) {
    const int from = draw(0, actors - 1), to = draw(0, actors - 1);
    if (from == to) continue;
    const int fillings = std::min(plan.plan().actors(from).acts_per_step(), plan.plan().actors(to).acts_per_step());
    const Use producer{from, plan.plan().actors(from).acts_per_step() / fillings};
    const Use consumer{to, plan.plan().actors(to).acts_per_step() / fillings};
    const int slots = draw(1, 3);
    const int filled = from < to ? 0 : draw(0, slots);  // most ways back need one
    plan.Register(absl::StrCat("r", r), producer, {consumer}, slots, 4, filled);
  }
  return plan;
}

}  // namespace oneflow::testing
