#include <algorithm>
#include <map>

#include "compiler/ring.h"
#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

// A causal attention of `tokens` that is trained.
Graph OneAttention(int64_t tokens, DType dtype = DType::kFloat32) {
  GraphBuilder b(Ops(), "train");
  const SbpHint by_tokens = {{"cp", Sbp::Split(1)}};
  const auto input = [&](const char* name) {
    return Cast(Tanh(b.Variable(name, {DType::kFloat32, {2, tokens, 8}}, "normal(1)", by_tokens)).To(by_tokens), dtype);
  };
  const Tensor out = Attention(input("q"), input("k"), input("v"), /*heads=*/2, /*causal=*/true);
  const Tensor loss = ReduceMean(Mul(Cast(out, DType::kFloat32), Cast(out, DType::kFloat32)));
  b.SetLoss(loss);
  return *b.Finish();
}

CompileOptions InARing(std::vector<Axis> axes) {
  CompileOptions options = Options(std::move(axes));
  options.rings = RingUse::kWherePossible;
  return options;
}

// By step of the ring, from 0: nodes of `op` of which one side has come so far.
std::map<int, int> StepsOf(const Graph& graph, const std::string& op) {
  std::map<int, int> steps;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != op) continue;
    int step = 0;
    for (const ValueId input : node.inputs) {
      const Placement& placement = graph.value(input).dist->placement;
      for (int by = 1; by < placement.size(); ++by) {
        if (placement != *node.placement && placement == Turned(*node.placement, {0}, by)) step = by;
      }
    }
    ++steps[step];
  }
  return steps;
}

TEST(RingAttentionTest, BothDirectionsAreDividedIntoSteps) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("ring-attention", OneAttention(16), InARing({{"cp", 4}})));
  const std::map<int, int> steps = {{0, 1}, {1, 2}, {2, 2}};  // each rank's own; keys and queries of each step
  EXPECT_EQ(StepsOf(graph, "attention"), steps);
  EXPECT_EQ(StepsOf(graph, "attention_grad"), steps);
  EXPECT_EQ(NamesOf(graph, "merge_attention").size(), 4u);
}

// So that no more of the ring is under way than is computed and fetched ahead.
TEST(RingAttentionTest, WhatComesWaitsForEarlierParts) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("ring-attention", OneAttention(32), InARing({{"cp", 8}})));
  std::map<std::string, int> waiting, moving;  // by op
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != "attention" && node.op != "attention_grad") continue;
    for (const ValueId input : node.inputs) {
      const Node& maker = graph.node(graph.value(input).producer);
      if (graph.value(input).dist->placement == *node.placement) continue;
      EXPECT_EQ(maker.op, "boxing") << node.name;
      EXPECT_EQ(*maker.placement, *node.placement) << "it acts where its readers do";
      ++moving[node.op];
      ASSERT_GE(maker.after.size(), 1u);
      EXPECT_EQ(maker.after[0], maker.inputs[0]) << "the rank's own comes first";
      const auto is_backward = [&](ValueId value) { return IsBackward(graph.node(graph.value(value).producer)); };
      EXPECT_EQ(std::any_of(maker.after.begin(), maker.after.end(), is_backward), node.op == "attention_grad")
          << "what backward reads does not come in forward";
      waiting[node.op] += graph.node(graph.value(maker.after.back()).producer).op == node.op;
    }
  }
  EXPECT_EQ(moving["attention"], 4 * (2 + 1));
  EXPECT_EQ(waiting["attention"], 4 * (2 + 1) - (2 + 1)) << "the parts of the first step wait for none";
  EXPECT_EQ(moving["attention_grad"], 4 * (2 + 4));
  EXPECT_EQ(waiting["attention_grad"], 4 * (2 + 4) - (2 + 4));
}

TEST(RingAttentionTest, NarrowPartsAreMergedAndAddedInFull) {
  ASSERT_OK_AND_ASSIGN(const Graph graph,
                       RunUpTo("ring-attention", OneAttention(16, DType::kBFloat16), InARing({{"cp", 2}})));
  int sums = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op == "attention") {
      EXPECT_EQ(graph.value(node.outputs[0]).type.dtype, DType::kBFloat16);
    }
    if (node.op != "merge_attention" && node.op != "add") continue;
    ++sums;
    for (const ValueId input : node.inputs) EXPECT_EQ(graph.value(input).type.dtype, DType::kFloat32) << node.name;
  }
  EXPECT_GE(sums, 2 + 3 * 2);
}

TEST(RingAttentionTest, WithoutSplitTokensNothingChanges) {
  const CompileOptions options = InARing({{"dp", 2}, {"tp", 2}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("ring-attention", OneAttention(16), options));
  EXPECT_EQ(NamesOf(graph, "attention").size(), 1u);
  EXPECT_EQ(NamesOf(graph, "attention_grad").size(), 1u);
  VariableDists variables;
  std::vector<std::string> warnings;
  ASSERT_OK(RunPasses(OneAttention(16), options, Ops(), variables, nullptr, &warnings));
  EXPECT_THAT(warnings, ::testing::ElementsAre(
                            "graph 'train': sequence.attention changes nothing: the mesh [dp=2,tp=2] has no axis for "
                            "sequences"));
}

// Four ranks cannot divide two heads, nor two samples; two can.
TEST(RingAttentionTest, WarnsWhereAllComputeTheSame) {
  for (const int size : {2, 4}) {
    CompileOptions options = Options({{"cp", size}});
    options.rings = RingUse::kNever;
    VariableDists variables;
    std::vector<std::string> warnings;
    ASSERT_OK(RunPasses(OneAttention(16), options, Ops(), variables, nullptr, &warnings));
    if (size == 2) {
      EXPECT_THAT(warnings, ::testing::IsEmpty());
    } else {
      EXPECT_THAT(warnings, ::testing::ElementsAre(::testing::HasSubstr(
                                "computed by all 4 ranks along 'cp', which can divide neither its 2 heads of keys nor "
                                "its 2 samples")));
    }
  }
}

}  // namespace
}  // namespace oneflow::testing
