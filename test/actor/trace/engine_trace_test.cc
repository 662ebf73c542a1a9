// What engines record of real runs over threads.
#include <filesystem>
#include <iterator>
#include <map>

#include "actor/engine.h"
#include "actor/trace/chrome_trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/test_device.h"
#include "test/actor/trace/chain.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

EngineOptions Options(int64_t trace_bytes) {
  EngineOptions options;
  options.ops = &testing::TestOps();
  options.open_device = TestDevice::Open;
  options.on_fetch = [](Fetched) {};
  options.trace_bytes = trace_bytes;
  return options;
}

// By run and step: how many acts every actor has.
using Counted = std::map<std::pair<int32_t, int64_t>, std::map<int32_t, int>>;

Counted Count(const Trace& trace) {
  Counted counted;
  for (const TracedAct& act : trace.acts) ++counted[{act.run, act.step}][act.actor];
  return counted;
}

TEST(EngineTraceTest, HoldsEveryActOfAllRunsOnce) {
  const TestDir dir;
  TestPlan plan = Chain({0, 0, 0});
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(1 << 20)));
  ASSERT_OK(engine->Run("p", 0, 20));
  ASSERT_OK(engine->Run("p", 5, 3));
  ASSERT_OK(engine->SaveTrace(dir.File("t.json")));
  ASSERT_OK_AND_ASSIGN(const Trace trace, ReadChromeTrace(dir.File("t.json")));
  const Counted counted = Count(trace);
  EXPECT_EQ(counted.size(), 23u);
  EXPECT_EQ(counted.count({2, 7}), 1u);
  for (const auto& [step, actors] : counted) {
    for (const pb::Actor& actor : trace.head.program().plans(0).actors()) {
      EXPECT_EQ(actors.at(actor.id()), actor.acts_per_step()) << actor.name();
    }
  }
  EXPECT_EQ(trace.head.processes(0).lost_acts(), 0);
  ExpectSense(trace);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.File("")), {}), 1);  // and no parts
}

TEST(EngineTraceTest, KeepsTheLastActsOfALongRun) {
  const TestDir dir;
  TestPlan plan = Chain({0, 0});
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(64 * 8 * 25)));
  ASSERT_OK(engine->Run("p", 0, 1000));
  ASSERT_OK(engine->SaveTrace(dir.File("t.json")));
  ASSERT_OK_AND_ASSIGN(const Trace trace, ReadChromeTrace(dir.File("t.json")));
  EXPECT_EQ(trace.acts.size(), 200u);
  EXPECT_EQ(trace.head.processes(0).lost_acts(), 1000 * 8 - 200);
  // 6 acts of a step are on one thread and 2 on the other, yet both keep the same steps, but for what runs ahead.
  Counted counted = Count(trace);
  EXPECT_LE(counted.size(), 26u);
  EXPECT_EQ(std::prev(counted.end(), 24)->first.second, 976);
  for (auto step = std::prev(counted.end(), 24); step != counted.end(); ++step) {
    for (const pb::Actor& actor : trace.head.program().plans(0).actors()) {
      EXPECT_EQ(step->second[actor.id()], actor.acts_per_step());
    }
  }
}

TEST(EngineTraceTest, RecordsNothingUnlessAskedTo) {
  const TestDir dir;
  TestPlan plan = Chain({0, 0});
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(0)));
  ASSERT_OK(engine->Run("p", 0, 1));
  EXPECT_THAT(engine->SaveTrace(dir.File("t.json")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("acts are not recorded")));
}

TEST(EngineTraceTest, FailsEverywhereIfItCannotBeWritten) {
  TestPlan plan = Chain({0, 0});
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(1000)));
  ASSERT_OK(engine->Run("p", 0, 1));
  EXPECT_THAT(engine->SaveTrace("/no/such/folder/t.json"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/no/such/folder/t.json")));
}

}  // namespace
}  // namespace oneflow
