#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

TEST(OptimizerTest, GivesEveryTrainableVariableStateAndAnUpdate) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("optimizer", Mlp(), Options({})));
  EXPECT_THAT(NamesOf(graph, "variable"), UnorderedElementsAre("up", "down", "up/adam_m", "up/adam_v", "down/adam_m",
                                                               "down/adam_v", "optimizer/step"));
  const Node& update = NodeOf(graph, "up/update");
  std::vector<std::string> operands;
  for (size_t i = 0; i < update.inputs.size(); ++i) operands.push_back(ProducerOf(graph, update, i).name);
  EXPECT_THAT(operands, ElementsAre("up", "up/adam_m", "up/adam_v", "up/grad", "optimizer/lr", "optimizer/clip",
                                    "optimizer/step"));
  EXPECT_FALSE(NodeOf(graph, "up/adam_m").attrs.Bool("trainable"));
  EXPECT_EQ(update.role, Role::kUpdate);
}

TEST(OptimizerTest, NeitherNeedsNorTakesNamesOfGradients) {
  GraphBuilder b(Ops(), "named");
  const Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4}));
  b.SetLoss(ReduceMean(b.Op1("relu", {x}, {}, std::source_location::current(), "w/grad")));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("optimizer", std::move(graph), Options({})));
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "w/update"), 3).op, "accumulate");
}

TEST(OptimizerTest, DecaysMatricesButNotVectors) {
  GraphBuilder b(Ops(), "g");
  b.SetLoss(ReduceMean(BiasAdd(MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4})), Weight(b, "bias", {4}))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  CompileOptions options = Options({});
  options.optimizer.weight_decay = 0.1;
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("optimizer", std::move(graph), options));
  EXPECT_EQ(NodeOf(graph, "w/update").attrs.Double("weight_decay"), 0.1);
  EXPECT_EQ(NodeOf(graph, "bias/update").attrs.Double("weight_decay", -1), 0);
}

TEST(OptimizerTest, HasSgdToo) {
  CompileOptions options = Options({});
  options.optimizer.rule = "sgd";
  options.optimizer.attributes.Set("momentum", 0.9);
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("optimizer", Mlp(), options));
  EXPECT_THAT(NamesOf(graph, "sgd_update"), ElementsAre("up/update", "down/update"));
  EXPECT_EQ(NodeOf(graph, "up/update").attrs.Double("momentum"), 0.9);
  EXPECT_THAT(NamesOf(graph, "adamw_update"), ElementsAre());
}

TEST(OptimizerTest, FetchesLearningRateAndGradientNorm) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("optimizer", Mlp(), Options({})));
  EXPECT_EQ(NodeOf(graph, "optimizer/lr/fetch").attrs.String("name"), "lr");
  const Node& norm = NodeOf(graph, "optimizer/grad_norm/fetch");
  EXPECT_EQ(norm.attrs.String("name"), "grad_norm");
  EXPECT_EQ(ProducerOf(graph, norm, 0).op, "clip_scale");
  EXPECT_EQ(graph.value(norm.inputs[0]).output, 1);
}

CompileOptions HalfOptions(std::vector<Axis> axes = {}) {
  CompileOptions options = Options(std::move(axes));
  options.precision.compute = DType::kFloat16;
  return options;
}

TEST(OptimizerTest, DividesTheScaleOfALossOutOfTheNormAndTheUpdates) {
  CompileOptions options = HalfOptions();
  options.precision.initial_scale = 0x1p24;
  options.precision.growth_interval = 100;
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("optimizer", Mlp(), options));
  EXPECT_THAT(NamesOf(graph, "variable"), IsSupersetOf({"optimizer/loss_scale", "optimizer/good_steps"}));
  EXPECT_EQ(NodeOf(graph, "optimizer/loss_scale").attrs.String("init"), "constant(16777216)");
  const Node& unscale = NodeOf(graph, "optimizer/unscale");
  EXPECT_EQ(ProducerOf(graph, unscale, 0).op, "add_n");
  EXPECT_EQ(ProducerOf(graph, unscale, 1).name, "optimizer/loss_scale");
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "optimizer/clip"), 0).name, "optimizer/unscale");
  const Node& scale = NodeOf(graph, "optimizer/scale");
  EXPECT_EQ(ProducerOf(graph, scale, 0).name, "optimizer/clip");
  EXPECT_EQ(ProducerOf(graph, scale, 1).name, "optimizer/unscale");
  for (const char* name : {"up/update", "down/update"}) {
    EXPECT_EQ(ProducerOf(graph, NodeOf(graph, name), 5).name, "optimizer/scale") << "NaN where the step is skipped";
  }
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "optimizer/step/increment"), 1).name, "optimizer/scale");
  const Node& update = NodeOf(graph, "optimizer/loss_scale/update");
  EXPECT_EQ(ProducerOf(graph, update, 2).name, "optimizer/scale");
  EXPECT_EQ(update.attrs.Int("interval"), 100);
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "optimizer/loss_scale/fetch"), 0).op, "variable");
  EXPECT_EQ(graph.value(NodeOf(graph, "optimizer/skipped/fetch").inputs[0]).output, 2);
}

TEST(OptimizerTest, ScalesNoLossWhereNothingIsComputedInF16) {
  CompileOptions options = Options({});
  options.precision.compute = DType::kBFloat16;
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("optimizer", Mlp(), options));
  EXPECT_THAT(NamesOf(graph, "unscale"), ElementsAre());
  EXPECT_EQ(graph.FindNode("optimizer/loss_scale"), -1);
  EXPECT_EQ(NodeOf(graph, "optimizer/step/increment").inputs.size(), 1u);
}

TEST(OptimizerTest, KeepsGradientsWithoutTheScaleOfTheLoss) {
  CompileOptions options = HalfOptions();
  options.keep_gradients = true;
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("optimizer", Mlp(), options));
  const Node& kept = ProducerOf(graph, NodeOf(graph, "up/grad/keep"), 1);
  EXPECT_EQ(kept.op, "div");
  EXPECT_EQ(ProducerOf(graph, kept, 0).name, "up/grad");
  EXPECT_EQ(ProducerOf(graph, kept, 1).name, "optimizer/loss_scale");
}

// One number says for all stages whether the step is skipped: it goes where the norm goes.
TEST(OptimizerTest, StagesShareOneLossScale) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("group-sums", Mlp(), HalfOptions({{"pp", 2}})));
  EXPECT_THAT(NamesOf(graph, "unscale"), ElementsAre("optimizer/unscale"));
  const Placement first = *NodeOf(graph, "up").placement, last = *NodeOf(graph, "down").placement;
  ASSERT_NE(first, last);
  for (const char* name : {"optimizer/unscale", "optimizer/loss_scale", "optimizer/good_steps", "optimizer/step"}) {
    EXPECT_EQ(*NodeOf(graph, name).placement, first) << name;
  }
  EXPECT_EQ(*NodeOf(graph, "reduce_mean/grad").placement, last);
}

TEST(OptimizerTest, KeepsGradientsIfAsked) {
  CompileOptions options = Options({});
  options.keep_gradients = true;
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("optimizer", Mlp(), options));
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "up/grad/keep"), 0).name, "up.grad");
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "up/grad/keep"), 1).name, "up/grad");
  EXPECT_FALSE(NodeOf(graph, "up.grad").attrs.Bool("trainable"));
}

TEST(OptimizerTest, StateHasItsVariablesWishes) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("optimizer", Mlp(8, 32, {{"tp", Sbp::Split(1)}}), Options({})));
  EXPECT_EQ(ToString(graph.value(NodeOf(graph, "up/adam_v").outputs[0]).hint), "tp:S(1)");
}

// A model that has a variable of such a name would train the optimizer's state, and share it.
TEST(OptimizerTest, NamesOfItsStateAreNotTheModels) {
  struct Case {
    const char* name;
    const char* of;
    DType compute = DType::kFloat32;
    bool keep_gradients = false;
    TensorType type = {DType::kFloat32, {16, 4}};
  };
  for (const Case& c :
       std::vector<Case>{{"w/adam_m", "variable 'w'"},
                         {"w/adam_v", "variable 'w'"},
                         {"w.grad", "variable 'w'", DType::kFloat32, /*keep_gradients=*/true},
                         {"optimizer/step", "all variables", DType::kFloat32, false, {DType::kInt64, {}}},
                         {"optimizer/loss_scale", "the scaled loss", DType::kFloat16, false, {DType::kFloat32, {}}},
                         {"optimizer/good_steps", "the scaled loss", DType::kFloat16, false, {DType::kInt64, {}}}}) {
    GraphBuilder b(Ops(), "named");
    const Tensor own = b.Variable(c.name, c.type, "zeros", {}, c.type.shape.rank() == 2);
    Tensor y = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4}));
    if (c.type.shape.rank() == 2) y = Add(y, MatMul(ReadSamples(b, 4).rows, own));
    b.SetLoss(ReduceMean(Relu(y)));
    ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
    CompileOptions options = Options({});
    options.precision.compute = c.compute;
    options.keep_gradients = c.keep_gradients;
    EXPECT_THAT(RunUpTo("optimizer", std::move(graph), options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::AllOf(::testing::HasSubstr(absl::StrCat("node '", c.name, "'")),
                                          ::testing::HasSubstr(absl::StrCat("state of ", c.of)),
                                          ::testing::HasSubstr("optimizer_test.cc"))))
        << c.name;
  }
}

TEST(OptimizerTest, AVariableBesideMayBeCalledAsStateThatIsNotThere) {
  GraphBuilder b(Ops(), "named");
  const Tensor rows = ReadSamples(b, 4).rows;
  b.SetLoss(ReduceMean(MatMul(rows, Add(Weight(b, "w", {16, 4}), Weight(b, "w/sgd_momentum", {16, 4})))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  EXPECT_OK(RunUpTo("optimizer", std::move(graph), Options({})).status());
}

}  // namespace
}  // namespace oneflow::testing
