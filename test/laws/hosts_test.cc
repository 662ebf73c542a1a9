// Jobs whose cluster says several hosts. They reduce their gradients hierarchically along one data-parallel axis:
// between hosts goes one part of as many as a host has devices, and what moves in all is what was predicted. Whatever a
// rank reads on another host is sent there with `filled`, and the losses are those of one device under any layout.
// Hosts are played by one process here, which copies what would be sent.
#include <cmath>

#include "compiler/boxed_graph.h"
#include "compiler/lower/program_text.h"
#include "oneflow_core/ops/ops.h"
#include "sbp/boxing.h"
#include "test/laws/layouts_law.h"
#include "test/support/status_matchers.h"
#include "tools/control/local/run_in_place.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

constexpr int kHostSteps = 5;

struct HostsOutcome {
  std::vector<double> losses = std::vector<double>(kHostSteps, std::nan(""));
  int64_t moved = 0, predicted = 0;  // by all steps
  int64_t crossed = 0;               // per step, between ranks of different hosts
};

// Bytes of the training graph's boxings whose reader and source are on different hosts, per step of one micro-batch.
absl::StatusOr<int64_t> Crossing(const Job& job, const OpRegistry& ops, const Topology& hosts) {
  VariableDists variables;
  OF_ASSIGN_OR_RETURN(const Graph graph, RunPasses(job.program[0], job.options, ops, variables));
  int64_t bytes = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (graph.node(id).op != "boxing") continue;
    const Value &from = graph.value(graph.node(id).inputs[0]), &to = graph.value(graph.node(id).outputs[0]);
    OF_ASSIGN_OR_RETURN(const BoxingStep step,
                        OneBoxingStep(from.type, *from.dist, *to.dist, JobTopology(job.options)));
    for (size_t i = 0; i < step.pieces.size(); ++i) {
      for (const BoxingPiece& piece : step.pieces[i]) {
        const int source = step.from.placement.ranks()[piece.source], reader = step.to.placement.ranks()[i];
        if (hosts.HostOf(source) == hosts.HostOf(reader)) continue;
        bytes += piece.region.count() * static_cast<int64_t>(SizeOf(from.type.dtype));
      }
    }
  }
  return bytes;
}

absl::StatusOr<HostsOutcome> Train(const std::string& cluster, const Topology& hosts) {
  const OpRegistry ops = StandardOps();
  OF_ASSIGN_OR_RETURN(SourcedConfig config,
                      ParseConfig("model { margin_classifier { widths: [64] embedding: 32 } } "
                                  "data { prototypes { classes: 64 samples: 400 } } mesh { dp: 8 } "
                                  "train { steps: 5 batch_size: 32 optimizer { sgd {} } "
                                  "schedule { learning_rate: 0.05 } } " +
                                      cluster,
                                  "law"));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  OF_ASSIGN_OR_RETURN(pb::Program program, CompileToProgram(job, ops));
  HostsOutcome outcome;
  OF_ASSIGN_OR_RETURN(outcome.crossed, Crossing(job, ops, hosts));
  job.spec.set_processes(1);  // really all here
  for (pb::Rank& rank : *program.mutable_ranks()) rank.set_process(0);
  outcome.predicted = PredictedBytesMoved(program.plans(0)) * kHostSteps;
  OF_ASSIGN_OR_RETURN(const EngineStats stats, RunInPlace(job.spec, std::move(program), [&](const pb::JobEvent& event) {
                        if (event.fetched().name() == "loss")
                          outcome.losses[event.fetched().step()] = event.fetched().values(0);
                      }));
  outcome.moved = stats.bytes_moved;
  return outcome;
}

TEST(HostsTest, BetweenTwoHostsOnePartOfAHostsDevicesTravels) {
  ASSERT_OK_AND_ASSIGN(const Topology hosts, Topology::Create(8, 4, {{.count = 2, .devices = 4}}));
  ASSERT_OK_AND_ASSIGN(const HostsOutcome flat, Train("", hosts));
  ASSERT_OK_AND_ASSIGN(const HostsOutcome two, Train("cluster { hosts { count: 2 } }", hosts));
  EXPECT_EQ(flat.moved, flat.predicted);
  EXPECT_EQ(two.moved, two.predicted);
  // Scalars, which no rank has a part of, and vectors go as they go.
  EXPECT_GT(flat.crossed, 100'000);
  EXPECT_NEAR(static_cast<double>(two.crossed) / static_cast<double>(flat.crossed), 1.0 / 4, 0.01);
  ASSERT_LT(flat.losses.back(), flat.losses.front());
  for (int step = 0; step < kHostSteps; ++step) EXPECT_NEAR(two.losses[step] / flat.losses[step], 1, 1e-5) << step;
}

class FarHostsTest : public testing::LayoutsLaw {
 protected:
  FarHostsTest() { steps_ = 8; }

  // Layouts on as many hosts as `cluster` says.
  void ExpectSameOn(const std::string& cluster, const std::string& config,
                    const std::vector<std::vector<std::string>>& layouts) {
    ASSERT_OK_AND_ASSIGN(const testing::Outcome whole, Run(config, {}));
    ASSERT_LT(whole.losses.back(), whole.losses.front());
    for (const std::vector<std::string>& layout : layouts) {
      SCOPED_TRACE(absl::StrJoin(layout, " ") + " " + cluster);
      ASSERT_OK_AND_ASSIGN(const testing::Outcome parts, Run(config + " cluster { " + cluster + " }", layout));
      ExpectSame(parts, whole);
    }
  }
};

constexpr char kTwoOfOne[] = "hosts { count: 2 devices: 1 }";
constexpr char kTwoOfTwo[] = "hosts { count: 2 devices: 2 }";
constexpr char kFourOfOne[] = "hosts { count: 4 devices: 1 }";
constexpr char kUneven[] = "processes: 4 hosts { count: 1 devices: 3 } hosts { count: 1 devices: 1 }";

const std::vector<std::vector<std::string>> kTwo = {
    {"mesh.dp=2"}, {"mesh.tp=2"}, {"mesh.pp=2", "train.micro_batches=4"}};
const std::vector<std::vector<std::string>> kFour = {{"mesh.dp=4"},
                                                     {"mesh.tp=4"},
                                                     {"mesh.dp=2", "mesh.tp=2"},
                                                     {"mesh.pp=2", "mesh.tp=2", "train.micro_batches=2"},
                                                     {"mesh.pp=2", "mesh.dp=2", "train.micro_batches=4"}};

TEST_F(FarHostsTest, GptOnTwoHosts) { ExpectSameOn(kTwoOfOne, Gpt(), kTwo); }
TEST_F(FarHostsTest, GptOnTwoHostsOfTwo) { ExpectSameOn(kTwoOfTwo, Gpt(), kFour); }
TEST_F(FarHostsTest, GptOnFourHosts) { ExpectSameOn(kFourOfOne, Gpt(), kFour); }
TEST_F(FarHostsTest, GptOnUnevenHosts) { ExpectSameOn(kUneven, Gpt(), kFour); }
TEST_F(FarHostsTest, ConvNetOnTwoHosts) { ExpectSameOn(kTwoOfOne, ConvNet(), kTwo); }
TEST_F(FarHostsTest, ConvNetOnFourHosts) {
  ExpectSameOn(kFourOfOne, ConvNet(), {{"mesh.dp=4"}, {"mesh.dp=2", "mesh.tp=2"}});
}
TEST_F(FarHostsTest, MlpOnUnevenHosts) {
  steps_ = 20;
  ExpectSameOn(kUneven, Mlp(), kFour);
}
TEST_F(FarHostsTest, MarginClassifierOnTwoHostsOfTwo) {
  ExpectSameOn(kTwoOfTwo, MarginClassifier(), {{"mesh.tp=4"}, {"mesh.dp=2", "mesh.tp=2"}});
}
TEST_F(FarHostsTest, WideDeepOnFourHosts) {
  last_bar_ = 1e-3;
  ExpectSameOn(kFourOfOne, WideDeep(), {{"mesh.tp=4"}, {"mesh.dp=2", "mesh.tp=2"}});
}

}  // namespace
}  // namespace oneflow
