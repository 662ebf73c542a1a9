// fuse-elementwise: which ops become one, and which stay apart.
#include "oneflow_core/elementwise.h"
#include "oneflow_core/functional.h"
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

class FuseElementwiseTest : public ::testing::Test {
 protected:
  // Samples of 16 columns, times a weight.
  Tensor Rows(const std::string& name = "w") { return MatMul(rows_, Weight(builder_, name, {16, 16})); }

  // The programs of what was fused, in order.
  std::vector<std::string> Programs(const Tensor& loss_of, CompileOptions options = Options({})) {
    builder_.SetLoss(ReduceMean(loss_of));
    absl::StatusOr<Graph> graph = builder_.Finish();
    if (graph.ok()) graph = RunUpTo("channel-blocks", *std::move(graph), options);
    EXPECT_OK(graph.status());
    if (!graph.ok()) return {};
    EXPECT_OK(VerifyBoxedGraph(*graph, Ops(), options));
    graph_ = *std::move(graph);
    std::vector<std::string> programs;
    for (const std::string& name : NamesOf(graph_, "elementwise")) {
      programs.push_back(NodeOf(graph_, name).attrs.String("made_of"));
    }
    return programs;
  }

  GraphBuilder builder_{Ops(), "elementwise"};
  const Tensor rows_ = ReadSamples(builder_, 8).rows;
  Graph graph_;
};

TEST_F(FuseElementwiseTest, AGateAndItsGradientsAreOneEach) {
  const Tensor gate = Rows("gate"), up = Rows("up");
  const std::vector<std::string> programs = Programs(gate * Sigmoid(gate) * up);
  ASSERT_THAT(programs, SizeIs(2));
  // Backward reads the sigmoid and the product before the last one.
  EXPECT_EQ(programs[0], "y0 = sigmoid(x0); y1 = mul(x0, y0); y2 = mul(y1, x1)");
  EXPECT_THAT(programs[1], HasSubstr("add_scalar"));
  EXPECT_THAT(NamesOf(graph_, "mul"), SizeIs(1)) << "the gradient of `up`, which only products read";
  EXPECT_THAT(NamesOf(graph_, "neg"), IsEmpty());
}

TEST_F(FuseElementwiseTest, WhatNobodyElseReadsIsATemporary) {
  const Tensor x = Rows();
  EXPECT_THAT(Programs(Scale(AddScalar(x, 1), 2))[0], "t0 = add_scalar(x0) {alpha=1.0}; y0 = scale(t0) {alpha=2.0}");
}

// Other branches of a model lie between, in the order in which it was written.
TEST_F(FuseElementwiseTest, WhatLiesBetweenDoesNotKeepThemApart) {
  const Tensor x = AddScalar(Rows(), 1);
  Tensor others = Rows("a");
  for (const char* name : {"b", "c", "d"}) others = MatMul(others, Weight(builder_, name, {16, 16}));
  const std::vector<std::string> programs = Programs(MatMul(Scale(x, 2), Weight(builder_, "v", {16, 16})) + others);
  EXPECT_THAT(programs, ::testing::Contains("t0 = add_scalar(x0) {alpha=1.0}; y0 = scale(t0) {alpha=2.0}"));
}

TEST_F(FuseElementwiseTest, WhatLeadsFromOneToTheOtherKeepsThemApart) {
  const Tensor x = AddScalar(Rows("in"), 1);
  const Tensor y = x + MatMul(x, Weight(builder_, "w", {16, 16}));
  EXPECT_THAT(Programs(y), Not(::testing::Contains(HasSubstr("add_scalar(x0) {alpha=1.0}; "))));
  EXPECT_THAT(NamesOf(graph_, "add_scalar"), SizeIs(1));
}

// The two sums would each have to be first: what one reads the other makes, by way of a product. So only one of them
// is one with what it reads.
TEST_F(FuseElementwiseTest, TwoWholesDoNotWaitForOneAnother) {
  const Tensor a = AddScalar(Rows("a"), 1), b = AddScalar(Rows("b"), 2);
  const Tensor c = a + MatMul(b, Weight(builder_, "bw", {16, 16}));
  const Tensor d = b + MatMul(a, Weight(builder_, "aw", {16, 16}));
  Programs(c * d);  // verifies the graph, which is in order
  EXPECT_THAT(NamesOf(graph_, "add_scalar"), SizeIs(1));
}

TEST_F(FuseElementwiseTest, MoreThanAKernelTakesIsSeveral) {
  Tensor x = Rows();
  for (int i = 0; i < kMostElementwiseCalls + 3; ++i) x = AddScalar(x, i);
  const std::vector<std::string> programs = Programs(x);
  ASSERT_GE(programs.size(), 2u);
  for (const std::string& program : programs) EXPECT_OK(ParseElementwise(program));
}

TEST_F(FuseElementwiseTest, PartialValuesStayApart) {
  // The operands are split along what the product sums over, so that it is partial, and what is linear in it is too.
  const Tensor y = MatMul(rows_, Weight(builder_, "w", {16, 16}, {{"tp", Sbp::Split(0)}}));
  EXPECT_THAT(Programs(Tanh(Sigmoid(Scale(Scale(y, 2), 3))), Options({{"tp", 2}})), Not(IsEmpty()));
  for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
    if (graph_.node(id).op != "elementwise") continue;
    for (const ValueId input : graph_.node(id).inputs) {
      for (const Sbp& sbp : graph_.value(input).dist->sbp) EXPECT_FALSE(sbp.is_partial());
    }
  }
}

TEST_F(FuseElementwiseTest, ScalarsAreShared) {
  const Tensor x = Rows();
  const Tensor scale = builder_.Variable("scale", {DType::kFloat32, {}}, "ones");
  EXPECT_THAT(Programs(Tanh(x) * scale)[0], "y0 = tanh(x0); y1 = mul(y0, x1)");
}

TEST_F(FuseElementwiseTest, NothingIsFusedWhereAJobSaysSo) {
  const Tensor x = Rows();
  CompileOptions options = Options({});
  options.fuse = false;
  EXPECT_THAT(Programs(Tanh(Sigmoid(x)), options), IsEmpty());
}

}  // namespace
}  // namespace oneflow::testing
