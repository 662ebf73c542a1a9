// What chunks cost, of a trace in which that is known.
#include "tools/job/chunk_costs.h"

#include "compiler/lower/compile.h"
#include "compiler/lower/program.h"
#include "compiler/schedule/named_schedule.h"
#include "oneflow_core/queues.h"
#include "proto/plan.pb.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr int64_t kMs = 1'000'000;

// Two stages of two ranks and four micro-batches under a schedule. By rank r, F takes 2 + r ms, I 4 + r, W 6 + r, both
// together 10 + r, what moves values 1, all else 100; every third act takes much longer.
Trace TraceUnder(const std::string& schedule) {
  const StepShape shape{2, 2, 4};
  CompileOptions options = testing::OptionsFor(shape);
  if (!schedule.empty()) options.pipeline = *MakeSchedule({.name = schedule, .num_ranks = 2, .num_micro_batches = 4});
  Graph graph = testing::TrainingStep(shape);
  graph.losses = {graph.node(graph.FindNode("loss_grad")).outputs[0]};
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    node.chunk = node.placement->ranks()[0] / 2;
    if (node.op == "matmul_wgrad" || node.op == "accumulate") node.role = Role::kWeightGradient;
  }
  const pb::PlanSet set = *CompileBoxed({{graph, shape.micro_batches}}, options, testing::Ops());
  Trace trace;
  *trace.head.mutable_program() = *ProgramOf(set, std::nullopt, "");
  for (int a = 0; a < trace.head.program().plans(0).actors_size(); ++a) {
    const pb::Actor& actor = trace.head.program().plans(0).actors(a);
    int64_t ms = 100;
    if (actor.queue() == kCommunicationQueue) ms = 1;
    constexpr int64_t kOfSection[] = {100, 2, 4, 6, 10, 100};
    if (actor.queue() == kComputeQueue) ms = kOfSection[actor.section()] + actor.rank();
    for (int act = 0; act < 6; ++act) {
      TracedAct one;
      one.actor = a;
      one.act = act;
      one.end_ns = kMs * (act % 3 == 2 ? 20 * ms : ms);
      trace.acts.push_back(one);
    }
  }
  return trace;
}

TEST(ChunkCostsTest, SectionsTakeTheMedianOfTheSlowestRank) {
  ASSERT_OK_AND_ASSIGN(const ChunkTimes times, TracedChunks(TraceUnder("zb-h1"), 2));
  EXPECT_TRUE(times.splits_backward);
  ASSERT_EQ(times.costs.chunks.size(), 2u);
  for (int c = 0; c < 2; ++c) {
    const int rank = 2 * c + 1;
    EXPECT_DOUBLE_EQ(times.costs.chunks[c].forward, 1e-3 * (2 + rank));
    EXPECT_DOUBLE_EQ(times.costs.chunks[c].input_gradient, 1e-3 * (4 + rank));
    EXPECT_DOUBLE_EQ(times.costs.chunks[c].weight_gradient, 1e-3 * (6 + rank));
    // Half of what goes into the product, and of what comes out of relu: f32[8,16] each.
    EXPECT_GE(times.costs.chunks[c].activations, 2 * 4 * 16 * 4);
    EXPECT_LE(times.costs.chunks[c].activations, 3 * 4 * 16 * 4);
  }
  ASSERT_EQ(times.costs.transfers.size(), 1u);
  EXPECT_DOUBLE_EQ(times.costs.transfers[0], 1e-3);
}

TEST(ChunkCostsTest, BackwardThatWasOneActIsOne) {
  ASSERT_OK_AND_ASSIGN(const ChunkTimes times, TracedChunks(TraceUnder("1f1b"), 2));
  EXPECT_FALSE(times.splits_backward);
  EXPECT_DOUBLE_EQ(times.costs.chunks[0].input_gradient, 0.011);
  EXPECT_EQ(times.costs.chunks[0].weight_gradient, 0);
}

TEST(ChunkCostsTest, TracesThatDoNotTellAreRefused) {
  EXPECT_THAT(TracedChunks(TraceUnder(""), 2),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "plan 'train': chunk 1 of 2 has no forward in acts of its own, as a schedule makes them"));
  EXPECT_THAT(TracedChunks(TraceUnder("zb-h1"), 4),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("plan 'train' has 2 chunks, the schedule has 4")));
  Trace launches = TraceUnder("zb-h1");
  launches.head.mutable_program()->mutable_ranks(0)->set_device("cuda:0");
  EXPECT_THAT(TracedChunks(launches, 2),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("its acts on cuda:0 are launches")));
}

}  // namespace
}  // namespace oneflow
