// The collective law: a program whose ranks send to one another computes, bit by bit, what it computes where they read
// one another's memory, and moves as many bytes. The devices are the host's; the communication library is
// test/support/host_collectives.h.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "actor/engine.h"
#include "compiler/boxed_graph.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/program.h"
#include "compiler/lower/program_text.h"
#include "gmock/gmock.h"
#include "kernels/device.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/zones.h"
#include "proto/plan.pb.h"
#include "test/support/host_collectives.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

class CollectivesTest : public ::testing::Test {
 protected:
  static constexpr int kSteps = 4;

  CollectivesTest() : ops_(StandardOps()) {
    std::string text;
    std::mt19937 random(7);
    for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + (i % 7) * (random() % 3 + 1));
    text_ = dir_.Write("text", text);
  }

  std::string Gpt() const {
    return "model { gpt { vocabulary: 128 layers: 2 width: 24 heads: 4 context: 12 dropout: 0.1 } } data { text { "
           "path: "
           "'" +
           text_ +
           "' } } train { steps: 4 batch_size: 8 optimizer { adamw { weight_decay: 0.1 } clip_norm: 1 } schedule { "
           "learning_rate: 3e-3 } }";
  }

  // The plan for ranks that send, or for ranks that read, from the same boxed graphs.
  absl::StatusOr<pb::Program> Plan(const std::vector<std::string>& layout, bool sending) {
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(Gpt(), "law"));
    for (const std::string& one : layout) OF_RETURN_IF_ERROR(ApplyOverride(one, sourced));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, ops_));
    job.options.device = DeviceKind::kCuda;
    job.options.ranks_per_process = job.options.NumRanks();
    VariableDists dists;
    std::vector<BoxedGraph> boxed;
    for (const Graph& graph : job.program) {
      OF_ASSIGN_OR_RETURN(Graph result, RunPasses(graph, job.options, ops_, dists));
      boxed.push_back({std::move(result), graph.is_trained() ? job.options.micro_batches : 1});
    }
    if (!sending) job.options.device = DeviceKind::kCpu;
    OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileBoxed(boxed, job.options, ops_));
    return ProgramOf(plan, std::nullopt, "");
  }

  struct Outcome {
    std::vector<double> losses;  // of all plans, one after another
    int64_t bytes_moved = 0, predicted = 0;
  };

  absl::StatusOr<Outcome> Run(const pb::Program& plan) {
    testing::HostCollectives collectives(plan);
    Outcome outcome;
    std::mutex mu;
    EngineOptions options;
    options.cores = 2;
    options.collectives = &collectives;
    options.open_device = [](const Device&, int cores) { return MakeCpuDevice(cores); };
    options.on_fetch = [&](Fetched fetched) {
      std::lock_guard<std::mutex> lock(mu);
      if (fetched.name == "loss") outcome.losses.push_back(fetched.values[0]);
    };
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(plan, std::move(options)));
    for (const pb::Plan& one : plan.plans()) {
      OF_RETURN_IF_ERROR(engine->Run(one.name(), 0, kSteps));
      outcome.predicted += PredictedBytesMoved(one) * kSteps;
    }
    outcome.bytes_moved = engine->stats().bytes_moved;
    return outcome;
  }

  static std::set<std::string> KindsIn(const pb::Program& plan) {
    std::set<std::string> kinds;
    for (const pb::Plan& one : plan.plans()) {
      for (const pb::Actor& actor : one.actors()) {
        for (const pb::Instruction& instruction : actor.instructions()) {
          if (instruction.kind() == pb::Instruction::COLLECTIVE) kinds.insert(instruction.collective());
        }
      }
    }
    return kinds;
  }

  const OpRegistry ops_;
  TestDir dir_;
  std::string text_;
};

TEST_F(CollectivesTest, RanksThatSendComputeBitByBitWhatRanksThatReadDo) {
  std::set<std::string> kinds;
  for (const std::vector<std::string>& layout :
       std::vector<std::vector<std::string>>{{"mesh={dp:2}"},
                                             {"mesh={tp:2}"},
                                             {"mesh={dp:2 tp:2}"},
                                             {"mesh={dp:3}"},
                                             {"mesh={tp:3}"},
                                             {"mesh={dp:2}", "train.micro_batches=4"},
                                             {"mesh={pp:2}", "train.micro_batches=4"},
                                             {"mesh={pp:2 dp:2}", "train.micro_batches=4"},
                                             {"mesh={pp:2 dp:2 tp:2}", "train.micro_batches=2"},
                                             {"mesh={pp:3 tp:2}", "train.micro_batches=2"},
                                             {"mesh={pp:4}", "train.micro_batches=8"},
                                             {"mesh={dp:2 tp:2}", "evaluate={mesh {tp:4}}"},
                                             {"mesh={dp:2 tp:2}", "evaluate={mesh {tp:3} ranks {first:1}}"},
                                             {"mesh={dp:3}", "evaluate={mesh {dp:2} ranks {first:2}}"},
                                             {"mesh={pp:2 tp:2}", "evaluate={mesh {dp:2} ranks {first:4}}"},
                                             {"mesh={pp:2 tp:2}", "evaluate={mesh {pp:3}}"},
                                             {"mesh={tp:2}", "evaluate={mesh {} ranks {first:1}}"}}) {
    SCOPED_TRACE(::testing::PrintToString(layout));
    ASSERT_OK_AND_ASSIGN(const pb::Program reading, Plan(layout, false));
    ASSERT_OK_AND_ASSIGN(const pb::Program sending, Plan(layout, true));
    ASSERT_OK_AND_ASSIGN(const Outcome expected, Run(reading));
    ASSERT_OK_AND_ASSIGN(const Outcome outcome, Run(sending));
    EXPECT_EQ(outcome.losses, expected.losses);
    ASSERT_EQ(expected.losses.size(), sending.plans_size() * kSteps);
    EXPECT_FALSE(std::isnan(expected.losses.back()));
    EXPECT_EQ(outcome.bytes_moved, outcome.predicted);
    EXPECT_EQ(outcome.bytes_moved, expected.bytes_moved);
    for (const std::string& kind : KindsIn(sending)) kinds.insert(kind);
    // Nothing but its own memory, and what is sent.
    for (const pb::Rank& rank : sending.ranks()) EXPECT_EQ(BytesOfZone(rank, kSharedZone), 0);
    for (const pb::Plan& plan : sending.plans()) {
      for (const pb::Register& reg : plan.registers()) {
        for (const int consumer : reg.consumers()) {
          EXPECT_EQ(plan.actors(consumer).rank(), plan.actors(reg.producer()).rank()) << reg.name();
        }
      }
    }
  }
  EXPECT_THAT(kinds, IsSupersetOf({"reduce-scatter", "all-gather", "exchange"}));
}

}  // namespace
}  // namespace oneflow
