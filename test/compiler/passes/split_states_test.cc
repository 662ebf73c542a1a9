#include "gmock/gmock.h"
#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

using ::testing::HasSubstr;

CompileOptions Divided(int stage, std::vector<Axis> axes = {{"dp", 4}}, int micro_batches = 1) {
  CompileOptions options = Options(std::move(axes), micro_batches);
  options.zero = ZeroOptions{.stage = stage, .axis = "dp"};
  return options;
}

std::string WishOf(const Graph& graph, absl::string_view name) {
  return ToString(graph.value(NodeOf(graph, name).outputs[0]).hint);
}

// One weight of each shape, all of which are trained.
Graph Weights(const std::vector<Shape>& shapes, const std::vector<SbpHint>& hints = {}) {
  GraphBuilder b(Ops(), "train");
  std::vector<Tensor> sums;
  for (size_t i = 0; i < shapes.size(); ++i) {
    sums.push_back(ReduceSum(Weight(b, absl::StrCat("w", i), shapes[i], i < hints.size() ? hints[i] : SbpHint{})));
  }
  Tensor loss = sums[0];
  for (size_t i = 1; i < sums.size(); ++i) loss = Add(loss, sums[i]);
  b.SetLoss(loss);
  return *b.Finish();
}

TEST(SplitStatesTest, ADimensionThatDividesEvenlyIsDividedElseTheLargest) {
  const Graph graph = Weights({Shape({8, 3}), Shape({3, 8}), Shape({6, 7}), Shape({3, 2}), Shape({}), Shape({5})});
  ASSERT_OK_AND_ASSIGN(const Graph split, RunUpTo("split-states", graph, Divided(1)));
  EXPECT_EQ(WishOf(split, "w0"), "dp:S(0)");
  EXPECT_EQ(WishOf(split, "w1"), "dp:S(1)");
  EXPECT_EQ(WishOf(split, "w2"), "dp:S(1)");
  EXPECT_EQ(WishOf(split, "w3"), "") << "some rank would have nothing";
  EXPECT_EQ(WishOf(split, "w4"), "");
  EXPECT_EQ(WishOf(split, "w5"), "dp:S(0)");
}

TEST(SplitStatesTest, NotOneThatIsDividedAlongAnotherAxis) {
  const SbpHint columns = {{"tp", Sbp::Split(1)}}, rows = {{"tp", Sbp::Split(0)}}, own = {{"dp", Sbp::Broadcast()}};
  const Graph graph = Weights({Shape({8, 8}), Shape({8, 8}), Shape({8}), Shape({8, 8})}, {columns, rows, rows, own});
  ASSERT_OK_AND_ASSIGN(const Graph split, RunUpTo("split-states", graph, Divided(1, {{"dp", 4}, {"tp", 2}})));
  EXPECT_EQ(WishOf(split, "w0"), "tp:S(1),dp:S(0)");
  EXPECT_EQ(WishOf(split, "w1"), "tp:S(0),dp:S(1)");
  EXPECT_EQ(WishOf(split, "w2"), "tp:S(0)") << "it stays a copy";
  EXPECT_EQ(WishOf(split, "w3"), "dp:B") << "its own wish counts";
  ASSERT_OK_AND_ASSIGN(const Graph without, RunUpTo("split-states", graph, Divided(1, {{"dp", 4}})));
  EXPECT_EQ(WishOf(without, "w1"), "tp:S(0),dp:S(0)") << "this mesh has no such axis";
}

TEST(SplitStatesTest, ARoleIsAllAxesThatHaveIt) {
  const std::vector<Axis> axes = {{"replica", 2, AxisRole::kBatch}, {"shard", 2, AxisRole::kBatch}};
  CompileOptions options = Divided(1, axes);
  const Graph graph = Weights({Shape({8, 3})});
  ASSERT_OK_AND_ASSIGN(const Graph both, RunUpTo("split-states", graph, options));
  EXPECT_EQ(WishOf(both, "w0"), "replica:S(0),shard:S(0)");
  options.zero->axis = "shard";
  ASSERT_OK_AND_ASSIGN(const Graph one, RunUpTo("split-states", graph, options));
  EXPECT_EQ(WishOf(one, "w0"), "shard:S(0)");
}

TEST(SplitStatesTest, OptimizerStateLiesAsItsWeightAndSumsDoFromStage2On) {
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("select-sbp", Mlp(), Divided(stage, {{"dp", 4}}, 2)));
    EXPECT_EQ(SbpOf(graph, "up"), "(S(0))");
    EXPECT_EQ(SbpOf(graph, "up/adam_m"), "(S(0))");
    EXPECT_EQ(SbpOf(graph, "up/adam_v"), "(S(0))");
    EXPECT_EQ(SbpOf(graph, "up/grad"), stage == 1 ? "(P)" : "(S(0))");
    CompileOptions once = Divided(stage, {{"dp", 4}}, 2);
    once.zero->sums_once = true;
    ASSERT_OK_AND_ASSIGN(const Graph summed_once, RunUpTo("select-sbp", Mlp(), once));
    EXPECT_EQ(SbpOf(summed_once, "up/grad"), "(P)");
  }
}

TEST(SplitStatesTest, WeightsThatAreNotTrainedAreDividedFromStage3On) {
  for (const int stage : {2, 3}) {
    CompileOptions options = Divided(stage);
    ParameterGroup frozen;
    frozen.match = "up";
    frozen.frozen = true;
    options.optimizer.groups = {frozen};
    ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("split-states", Mlp(), options));
    EXPECT_EQ(WishOf(graph, "up"), stage == 2 ? "" : "dp:S(0)");
    EXPECT_EQ(WishOf(graph, "down"), "dp:S(0)");
  }
}

TEST(SplitStatesTest, AMeshWithoutTheAxisIsTold) {
  VariableDists variables;
  std::vector<std::string> warnings;
  ASSERT_OK(RunPasses(Mlp(), Divided(3, {{"tp", 2}}), Ops(), variables, nullptr, &warnings));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "graph 'mlp': zero changes nothing: its mesh tp=2 has nothing to divide along 'dp'");
}

TEST(SplitStatesTest, WhatElseIsDoneAlongTheAxisIsRefusedWhereItContradicts) {
  CompileOptions options = Divided(2, {{"dp", 4}}, 2);
  options.compress = CompressOptions{.axis = "dp", .codec = "TOPK", .parameter = 0.1};
  EXPECT_THAT(RunUpTo("split-states", Mlp(), options).status().message(),
              HasSubstr("stage 2 would sum them in every micro-batch; use sum_once, or stage 1"));
  options.zero->sums_once = true;
  EXPECT_OK(RunUpTo("split-states", Mlp(), options).status());
  options.compress.reset();
  options.local_training = LocalTrainingOptions{.axis = "dp"};
  EXPECT_THAT(RunUpTo("split-states", Mlp(), options).status().message(),
              HasSubstr("where ranks train by themselves (sync), each all of it"));
}

}  // namespace
}  // namespace oneflow::testing
