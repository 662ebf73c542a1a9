// Schedules in real runs: every one computes what one device does, and what ranks do is what the plan says, in its
// order.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "actor/engine.h"
#include "actor/trace/chrome_trace.h"
#include "oneflow_core/queues.h"
#include "test/laws/layouts_law.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

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
    return CompileToProgram(job, ops_);
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
  const std::vector<std::pair<std::string, int>> kCases = {
      {"gpipe", 2},      {"1f1b", 2},   {"interleaved", 2}, {"zb-h1", 2}, {"zb-v", 2},
      {"dualpipe-v", 2}, {"greedy", 2}, {"1f1b", 4},        {"zb-h1", 4}, {"zb-v", 4}};
  for (const auto& [schedule, stages] : kCases) {
    SCOPED_TRACE(absl::StrCat(schedule, " on ", stages));
    ASSERT_OK_AND_ASSIGN(const pb::Program program,
                         ProgramUnder(Layout(schedule, absl::StrCat("pp:", stages), 4 * stages / 2)));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Engine> engine, Engine::Create(program, {.trace_bytes = 1 << 20}));
    ASSERT_OK(engine->Run("train", 0, 3));
    const std::string path = dir_.File("trace.json");
    ASSERT_OK(engine->SaveTrace(path));
    ASSERT_OK_AND_ASSIGN(const Trace trace, ReadChromeTrace(path));
    ASSERT_THAT(program.plans(0).orders(), SizeIs(stages));
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

// A run under one schedule says what chunks cost; the greedy one goes by that.
TEST_F(SchedulesTest, GreedyGoesByTheCostsOfATracedRun) {
  const auto greedy = [&](const std::string& traced, const std::string& fields, int chunks) {
    return std::vector<std::string>{
        absl::StrCat("pipeline={schedule:'greedy' costs:'", traced, "' chunks:", chunks, " ", fields, "}"),
        "mesh={pp:2}", "train.micro_batches=4"};
  };
  std::map<std::string, std::string> traces;
  for (const char* schedule : {"1f1b", "zb-h1", "zb-v"}) {
    ASSERT_OK_AND_ASSIGN(const pb::Program program, ProgramUnder(Layout(schedule, "pp:2", 4)));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Engine> engine, Engine::Create(program, {.trace_bytes = 1 << 20}));
    ASSERT_OK(engine->Run("train", 0, 3));
    traces[schedule] = dir_.File(absl::StrCat(schedule, ".json"));
    ASSERT_OK(engine->SaveTrace(traces[schedule]));
  }
  ExpectSameUnder(Gpt(), {greedy(traces["zb-h1"], "activations_mb: 0.5", 1), greedy(traces["1f1b"], "", 1),
                          greedy(traces["zb-v"], "", 2)});
  EXPECT_THAT(ProgramUnder(greedy(traces["zb-v"], "", 1)).status(),
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                ::testing::HasSubstr("plan 'train' has 4 chunks, the schedule has 2")));
  EXPECT_THAT(ProgramUnder(greedy(traces["zb-h1"], "activations_mb: 0.001", 1)).status(),
              testing::StatusIs(absl::StatusCode::kResourceExhausted,
                                ::testing::ContainsRegex("activations of one micro-batch take [0-9]+, and the cap is "
                                                         "1000")));
  EXPECT_THAT(ProgramUnder(greedy(dir_.File("none.json"), "", 1)).status(),
              testing::StatusIs(absl::StatusCode::kNotFound, ::testing::HasSubstr("pipeline.costs")));
}

// How many matrices each stage holds.
TEST_F(SchedulesTest, StagesMayHaveUnequalShares) {
  const auto with_shares = [](const std::string& schedule, const std::string& shares) {
    return std::vector<std::string>{absl::StrCat("pipeline={schedule:'", schedule, "' shares:[", shares, "]}"),
                                    "mesh={pp:2}", "train.micro_batches=4", "model.gpt.layers=6"};
  };
  const auto on_first = [&](const std::string& shares) {
    absl::StatusOr<pb::Program> program = ProgramUnder(with_shares("1f1b", shares));
    EXPECT_OK(program.status());
    int matmuls[2] = {0, 0};
    for (const pb::Actor& actor : program.ok() ? program->plans(0).actors() : pb::Plan().actors()) {
      for (const pb::Instruction& x : actor.instructions()) matmuls[actor.rank()] += x.op() == "matmul";
    }
    return static_cast<double>(matmuls[0]) / (matmuls[0] + matmuls[1]);
  };
  EXPECT_NEAR(on_first("1, 1"), 0.5, 0.1);
  EXPECT_NEAR(on_first("2, 1"), 2. / 3, 0.1);
  EXPECT_NEAR(on_first("1, 3"), 0.25, 0.1);
  ExpectSameUnder(Gpt(), {{"pipeline={shares:[3, 1]}", "mesh={pp:2}", "train.micro_batches=2"},
                          {"pipeline={schedule:'zb-v' shares:[1, 2, 2, 1]}", "mesh={pp:2}", "train.micro_batches=4"},
                          {"pipeline={schedule:'interleaved' shares:[1, 2]}", "mesh={pp:2}", "train.micro_batches=4"}});
  EXPECT_THAT(
      ProgramUnder(with_shares("zb-v", "1, 2, 3")).status(),
      testing::StatusIs(absl::StatusCode::kInvalidArgument,
                        ::testing::HasSubstr("pipeline.shares: there are 3; the job has 2 stages and 4 chunks")));
}

// Ranks that send are told beforehand in which order: where the job names no schedule, that of 1F1B.
TEST_F(SchedulesTest, PipelinesOfCudaDevicesHave1F1BUnlessTheySayOtherwise) {
  const auto orders_of_compute = [&](const std::string& pipeline, const std::string& device) {
    absl::StatusOr<pb::Program> program = ProgramUnder({absl::StrCat("pipeline={", pipeline, "}"), "mesh={pp:2}",
                                                        "train.micro_batches=4", "cluster.device=" + device});
    EXPECT_OK(program.status());
    std::string text;
    for (const pb::QueueOrder& order : program.ok() ? program->plans(0).orders() : pb::Plan().orders()) {
      if (order.queue() != kComputeQueue || order.rank() != 0) continue;
      for (const int actor : order.actors()) text += program->plans(0).actors(actor).name()[0];
    }
    return text;
  };
  EXPECT_EQ(orders_of_compute("", "cuda"), "ffbfbfbb");
  EXPECT_EQ(orders_of_compute("schedule:'gpipe'", "cuda"), "ffffbbbb");
  EXPECT_EQ(orders_of_compute("schedule:'credits'", "cuda"), "");
  EXPECT_EQ(orders_of_compute("", "cpu"), "");
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
