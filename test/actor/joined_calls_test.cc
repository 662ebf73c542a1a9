// Which instructions run as one call, seen from outside: what they compute, and how many calls were of how many.
#include <map>
#include <string>
#include <vector>

#include "actor/engine.h"
#include "gmock/gmock.h"
#include "test/actor/test_device.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Variables that an actor adds to one another, in this order: {v, x} is v += x.
struct Updates {
  std::string variables;
  std::vector<std::string> order;  // "ab": a += b
};

class JoinedCallsTest : public ::testing::Test {
 protected:
  // The variables after one step; they begin as 1, 2, 3...
  std::map<char, double> Run(const Updates& updates, bool profile = false) {
    UpdatesAtOnce().clear();
    TestPlan plan({0});
    const int actor = plan.Actor(0, "update"), reader = plan.Actor(0, "reader");
    std::map<char, int> registers;
    for (size_t i = 0; i < updates.variables.size(); ++i) {
      const int variable =
          plan.Variable(std::string(1, updates.variables[i]), 4, absl::StrCat("constant(", i + 1, ")"), {0});
      const int id = plan.Register(std::string(1, updates.variables[i]), {actor}, {{reader}}, 1, 4, 1);
      plan.plan().mutable_registers(id)->set_offset(plan.set().variables(variable).shards(0).offset());
      plan.plan().mutable_registers(id)->set_slot_stride(0);
      registers[updates.variables[i]] = id;
    }
    for (const std::string& update : updates.order) {
      plan.Compute(actor, "update", {registers.at(update[0]), registers.at(update[1])}, {});
    }
    plan.AddPlan("look", 1);
    const int show = plan.Actor(0, "show"), look = plan.Actor(0, "look");
    for (size_t i = 0; i < updates.variables.size(); ++i) {
      const int id = plan.Register("same", {show}, {{look}}, 1);
      plan.plan().mutable_registers(id)->set_offset(plan.set().variables(static_cast<int>(i)).shards(0).offset());
      plan.plan().mutable_registers(id)->set_slot_stride(0);
      plan.Fetch(look, id, std::string(1, updates.variables[i]));
    }
    std::map<char, double> values;
    EngineOptions options;
    options.on_fetch = [&](Fetched fetched) { values[fetched.name[0]] = fetched.values[0]; };
    options.ops = &testing::TestOps();
    options.open_device = TestDevice::Open;
    options.profile = profile;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(plan.set(), std::move(options));
    EXPECT_OK(engine.status());
    if (!engine.ok()) return {};
    EXPECT_OK((*engine)->Run("p", 0, 1));
    EXPECT_OK((*engine)->Run("look", 0, 1));
    return values;
  }
};

TEST_F(JoinedCallsTest, NeighboursThatAreApartAreOneCall) {
  EXPECT_THAT(Run({"abcx", {"ax", "bx", "cx"}}), ElementsAre(Pair('a', 5), Pair('b', 6), Pair('c', 7), Pair('x', 4)));
  EXPECT_THAT(UpdatesAtOnce(), ElementsAre(3));
}

TEST_F(JoinedCallsTest, OneThatReadsWhatAnotherWritesBeginsTheNext) {
  EXPECT_THAT(Run({"abx", {"ax", "ba"}}), ElementsAre(Pair('a', 4), Pair('b', 6), Pair('x', 3)));
  EXPECT_THAT(UpdatesAtOnce(), IsEmpty());
  EXPECT_THAT(Run({"abcx", {"ax", "bx", "ca", "bx"}}),
              ElementsAre(Pair('a', 5), Pair('b', 10), Pair('c', 8), Pair('x', 4)));
  EXPECT_THAT(UpdatesAtOnce(), ElementsAre(2, 2));
}

TEST_F(JoinedCallsTest, OneThatWritesWhatAnotherReadsBeginsTheNext) {
  EXPECT_THAT(Run({"abx", {"ab", "bx"}}), ElementsAre(Pair('a', 3), Pair('b', 5), Pair('x', 3)));
  EXPECT_THAT(UpdatesAtOnce(), IsEmpty());
}

TEST_F(JoinedCallsTest, OneThatWritesWhatAnotherWritesBeginsTheNext) {
  EXPECT_THAT(Run({"abx", {"ab", "ax"}}), ElementsAre(Pair('a', 6), Pair('b', 2), Pair('x', 3)));
  EXPECT_THAT(UpdatesAtOnce(), IsEmpty());
}

TEST_F(JoinedCallsTest, WhatIsTimedRunsByItself) {
  EXPECT_THAT(Run({"abx", {"ax", "bx"}}, /*profile=*/true), ElementsAre(Pair('a', 4), Pair('b', 5), Pair('x', 3)));
  EXPECT_THAT(UpdatesAtOnce(), IsEmpty());
}

}  // namespace
}  // namespace oneflow
