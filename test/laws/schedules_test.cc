// Schedules in real runs: every one computes what one device does, and what ranks do is what the plan says, in its
// order.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "actor/engine.h"
#include "actor/trace/chrome_trace.h"
#include "test/laws/layouts_law.h"

namespace oneflow {
namespace {

using ::testing::SizeIs;

class SchedulesTest : public testing::LayoutsLaw {
 protected:
  SchedulesTest() { steps_ = 6; }

  static std::vector<std::string> Layout(const std::string& schedule, const std::string& mesh, int micro_batches,
                                         int chunks = 0) {
    return {absl::StrCat("pipeline={schedule:'", schedule, "' chunks:", chunks, "}"), "mesh={" + mesh + "}",
            absl::StrCat("train.micro_batches=", micro_batches)};
  }

  absl::StatusOr<pb::Program> ProgramUnder(const std::vector<std::string>& layout) {
    OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig(Gpt(), "law"));
    OF_RETURN_IF_ERROR(ApplyOverride("train.steps=3", config));
    for (const std::string& one : layout) OF_RETURN_IF_ERROR(ApplyOverride(one, config));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops_));
    OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileJob(job, ops_));
    return testing::SpelledOut(plan);
  }
};

TEST_F(SchedulesTest, AGptTrainsAlikeUnderEverySchedule) {
  ExpectSameUnder(Gpt(),
                  {Layout("gpipe", "pp:2", 4), Layout("gpipe", "pp:4", 4), Layout("1f1b", "pp:2 dp:2", 4),
                   Layout("1f1b", "pp:4", 8), Layout("interleaved", "pp:2", 4), Layout("interleaved", "pp:2", 8, 3),
                   Layout("interleaved", "pp:2 dp:2", 4), Layout("zb-h1", "pp:2 tp:2", 4), Layout("zb-h1", "pp:4", 8),
                   Layout("zb-v", "pp:2", 4), Layout("zb-v", "pp:4", 8), Layout("dualpipe-v", "pp:2", 4),
                   Layout("dualpipe-v", "pp:2 dp:2", 4), Layout("greedy", "pp:4", 8), Layout("1f1b", "pp:2", 1)});
}

TEST_F(SchedulesTest, OtherModelsDoToo) {
  steps_ = 20;
  ExpectSameUnder(ConvNet(), {Layout("interleaved", "pp:2", 4), Layout("zb-h1", "pp:2", 4)});
  ExpectSameUnder(Mlp(), {Layout("zb-v", "pp:2", 4)});
}

// Acts of a rank's queue, as they began, are its order in the plan, step by step.
TEST_F(SchedulesTest, RanksActInTheOrderOfThePlan) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v", "greedy"}) {
    SCOPED_TRACE(schedule);
    ASSERT_OK_AND_ASSIGN(const pb::Program program, ProgramUnder(Layout(schedule, "pp:2", 4)));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Engine> engine, Engine::Create(program, {.trace_bytes = 1 << 20}));
    ASSERT_OK(engine->Run("train", 0, 3));
    const std::string path = dir_.File("trace.json");
    ASSERT_OK(engine->SaveTrace(path));
    ASSERT_OK_AND_ASSIGN(const Trace trace, ReadChromeTrace(path));
    ASSERT_THAT(program.plans(0).orders(), SizeIs(2));
    for (const pb::QueueOrder& order : program.plans(0).orders()) {
      std::vector<int> expected, happened;
      for (int step = 0; step < 3; ++step)
        expected.insert(expected.end(), order.actors().begin(), order.actors().end());
      for (const TracedAct& act : trace.acts) {
        if (std::count(order.actors().begin(), order.actors().end(), act.actor) > 0) happened.push_back(act.actor);
      }
      EXPECT_EQ(happened, expected) << "rank " << order.rank();
    }
  }
}

// Of two stages with one chain for each kind of action.
TEST_F(SchedulesTest, TheOrderOfAPlanIsItsSchedule) {
  const auto letters = [&](const std::string& schedule) {
    std::string text;
    absl::StatusOr<pb::Program> program = ProgramUnder(Layout(schedule, "pp:2", 4));
    EXPECT_OK(program.status());
    if (!program.ok()) return text;
    const pb::Plan& plan = program->plans(0);
    for (const int actor : plan.orders(0).actors()) text += plan.actors(actor).name()[0];
    return text;
  };
  EXPECT_EQ(letters("gpipe"), "ffffbbbb");
  EXPECT_EQ(letters("1f1b"), "ffbfbfbb");
  EXPECT_EQ(letters("zb-h1").size(), 12u) << "gradients of inputs and of weights are apart";
}

TEST_F(SchedulesTest, WhatCannotBeIsAnErrorOfTheConfig) {
  EXPECT_THAT(ProgramUnder(Layout("zb-v", "pp:2", 4, 3)).status(),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("pipeline")));
  EXPECT_THAT(ProgramUnder(Layout("sideways", "pp:2", 4)).status(),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("sideways")));
}

// A file in the text form of PyTorch's schedules.
TEST_F(SchedulesTest, ASchedulesFileIsASchedule) {
  const std::string path = dir_.Write("all.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  ExpectSameUnder(Gpt(), {Layout("file:" + path, "pp:2", 2)});
}

}  // namespace
}  // namespace oneflow
