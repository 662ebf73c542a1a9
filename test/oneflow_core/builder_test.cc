#include "oneflow_core/functional.h"
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/verify.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

class BuilderTest : public ::testing::Test {
 protected:
  Tensor Matrix(const std::string& name, int64_t rows, int64_t columns) {
    return b_.Variable(name, {DType::kFloat32, {rows, columns}}, "zeros");
  }
  const Node& NodeOf(const Tensor& tensor) { return b_.graph().node(b_.graph().value(tensor.id()).producer); }

  const OpRegistry ops_ = StandardOps();
  GraphEditor b_{ops_, Graph("test")};
};

TEST_F(BuilderTest, NamesNodesByScopeAndOpAndNumbersTheRest) {
  const Tensor x = Matrix("x", 2, 2);
  EXPECT_EQ(NodeOf(Relu(x)).name, "relu");
  EXPECT_EQ(NodeOf(Relu(x)).name, "relu_2");
  {
    const GraphBuilder::Scope outer(b_, "h0");
    const GraphBuilder::Scope inner(b_, "mlp");
    EXPECT_EQ(NodeOf(Relu(x)).name, "h0/mlp/relu");
    EXPECT_EQ(NodeOf(b_.Op1("relu", {x}, {}, std::source_location::current(), "act")).name, "h0/mlp/act");
  }
  EXPECT_EQ(NodeOf(b_.Op1("relu", {x}, {}, std::source_location::current(), "relu_2")).name, "relu_2_2");
  EXPECT_EQ(NodeOf(Relu(x)).name, "relu_3");
  ASSERT_OK_AND_ASSIGN(const Graph graph, b_.Finish());
  EXPECT_OK(VerifyGraph(graph, ops_));
}

TEST_F(BuilderTest, KeepsTheFirstErrorWithTheLineThatMadeIt) {
  const Tensor x = Matrix("x", 2, 3);
  const std::source_location here = std::source_location::current();
  const Tensor wrong = MatMul(x, x, false, here);
  EXPECT_FALSE(wrong.valid());
  EXPECT_FALSE(Relu(wrong).valid());
  b_.SetLoss(x);
  EXPECT_THAT(b_.Finish(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(absl::StrCat("(matmul, oneflow_core/builder_test.cc:", here.line(), ")")),
                             HasSubstr("f32[2,3]"))));
}

TEST_F(BuilderTest, RefusesUnknownOpsAndTensorsOfOtherGraphs) {
  EXPECT_TRUE(b_.Op("frobnicate", {}).empty());
  EXPECT_THAT(b_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no op 'frobnicate'")));
  GraphBuilder other(ops_, "other");
  Tensor x = Matrix("x", 2, 2);
  EXPECT_FALSE(other.Op1("relu", {x}).valid());
  EXPECT_THAT(other.Finish(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no tensor of this graph")));
}

TEST_F(BuilderTest, AVariableAskedForAgainIsTheSameIfItsTypeIs) {
  const GraphBuilder::Scope scope(b_, "h0");
  const Tensor w = Matrix("w", 2, 3);
  EXPECT_EQ(NodeOf(w).name, "h0/w");
  EXPECT_EQ(Matrix("w", 2, 3).id(), w.id());
  EXPECT_OK(b_.status());
  EXPECT_FALSE(Matrix("w", 3, 2).valid());
  EXPECT_THAT(b_.Finish(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("variable 'h0/w': declared as f32[2,3] and again as f32[3,2] at oneflow_core/")));
}

TEST_F(BuilderTest, RefusesALossThatIsNoScalar) {
  b_.SetLoss(Matrix("x", 2, 2));
  EXPECT_THAT(b_.Finish(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be f32[] but is f32[2,2]")));
}

TEST_F(BuilderTest, AnnotationsBecomeToNodes) {
  const Tensor x = Matrix("x", 2, 2);
  const Tensor here = x.To({{"dp", Sbp::Split(0)}});
  const Tensor there = x.To({{"pp", 1}}, {{"tp", Sbp::Broadcast()}});
  EXPECT_EQ(NodeOf(here).op, "to");
  EXPECT_TRUE(NodeOf(here).at.empty());
  EXPECT_EQ(ToString(b_.graph().value(here.id()).hint), "dp:S(0)");
  EXPECT_THAT(NodeOf(there).at, ElementsAre(AxisCoordinate{"pp", 1}));
  EXPECT_FALSE(Tensor().To({{"dp", Sbp::Split(0)}}).valid());
}

TEST_F(BuilderTest, PlacementScopesMarkTheNodesMadeInThem) {
  const Tensor x = Matrix("x", 2, 2);
  Tensor inside;
  {
    const GraphBuilder::PlacementScope scope(b_, {{"pp", 1}});
    inside = Relu(x);
  }
  EXPECT_THAT(NodeOf(inside).at, ElementsAre(AxisCoordinate{"pp", 1}));
  EXPECT_TRUE(NodeOf(Relu(x)).at.empty());
}

TEST_F(BuilderTest, PrecisionScopesMarkTheNodesMadeInThem) {
  const Tensor x = Matrix("x", 2, 2);
  Tensor inner, outer;
  {
    const GraphBuilder::PrecisionScope narrow(b_, DType::kBFloat16);
    {
      const GraphBuilder::PrecisionScope full(b_, DType::kFloat32);
      inner = Relu(x);
    }
    outer = Relu(inner);
  }
  EXPECT_EQ(NodeOf(inner).precision, DType::kFloat32);
  EXPECT_EQ(NodeOf(outer).precision, DType::kBFloat16);
  EXPECT_EQ(NodeOf(Relu(outer)).precision, std::nullopt);
}

TEST_F(BuilderTest, APrecisionIsAFloatingType) {
  const GraphBuilder::PrecisionScope scope(b_, DType::kInt32);
  EXPECT_THAT(b_.Finish(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("i32, which is not floating")));
}

TEST_F(BuilderTest, SegmentsHoldTheNodesMadeInThem) {
  const Tensor x = Matrix("x", 2, 2);
  Tensor inner, outer;
  {
    const GraphBuilder::Segment layer(b_, "layers");
    {
      const GraphBuilder::Segment core(b_, "attention");
      inner = Relu(x);
    }
    outer = Relu(inner);
  }
  const Tensor behind = Relu(outer);
  EXPECT_EQ(NodeOf(x).segment, -1);
  EXPECT_EQ(NodeOf(inner).segment, 1);
  EXPECT_EQ(NodeOf(outer).segment, 0);
  EXPECT_EQ(NodeOf(behind).segment, -1);
  const std::vector<Segment>& segments = b_.graph().segments;
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[1].kind, "attention");
  EXPECT_EQ(segments[1].parent, 0);
}

TEST_F(BuilderTest, GoesOnWithAFinishedGraph) {
  Relu(Matrix("x", 2, 2));
  ASSERT_OK_AND_ASSIGN(Graph graph, b_.Finish());
  GraphEditor more(ops_, std::move(graph));
  more.set_role(Role::kUpdate);
  more.set_source("pass");
  const Tensor x = more.Variable("x", {DType::kFloat32, {2, 2}}, "zeros");
  EXPECT_EQ(x.id(), 0);  // found, not made
  const Tensor y = more.Op1("relu", {x});
  ASSERT_OK_AND_ASSIGN(const Graph longer, more.Finish());
  EXPECT_OK(VerifyGraph(longer, ops_));
  const Node& node = longer.node(longer.value(y.id()).producer);
  EXPECT_EQ(node.name, "relu_2");
  EXPECT_EQ(node.role, Role::kUpdate);
  EXPECT_EQ(node.source, "pass");
}

TEST_F(BuilderTest, AGradientIsWrittenUnderItsForwardNodesNameAndLine) {
  const std::source_location here = std::source_location::current();
  const Tensor x = Matrix("x", 2, 2);
  const Tensor y = Relu(x, here);
  GradContext context(b_, b_.graph().value(y.id()).producer, {y});
  ASSERT_OK(ops_.Find("relu")->grad(context));
  ASSERT_TRUE(context.input_grads()[0].has_value());
  const Node& node = NodeOf(*context.input_grads()[0]);
  EXPECT_EQ(node.name, "relu/relu_grad");
  EXPECT_TRUE(IsBackward(node));
  EXPECT_EQ(node.source, absl::StrCat("oneflow_core/builder_test.cc:", here.line()));
}

TEST_F(BuilderTest, UsesOfAVariableMayNotWishForTwoLayouts) {
  const OpRegistry ops = StandardOps();
  const TensorType type{DType::kFloat32, {4, 4}};
  const SbpHint rows = {{"tp", Sbp::Split(0)}}, columns = {{"tp", Sbp::Split(1)}};
  GraphBuilder alike(ops, "g");
  const Tensor w = alike.Variable("w", type, "zeros");
  EXPECT_EQ(alike.Variable("w", type, "zeros", rows).id(), w.id());
  EXPECT_EQ(alike.Variable("w", type, "zeros", rows).id(), w.id());
  EXPECT_EQ(alike.Variable("w", type, "zeros").id(), w.id());
  ASSERT_OK_AND_ASSIGN(const Graph graph, alike.Finish());
  EXPECT_EQ(ToString(graph.value(w.id()).hint), "tp:S(0)");
  GraphBuilder other(ops, "g");
  other.Variable("w", type, "zeros", rows);
  other.Variable("w", type, "zeros", columns);
  EXPECT_THAT(other.Finish().status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("variable 'w': asked to lie as tp:S(0) and again as tp:S(1) at")));
}

}  // namespace
}  // namespace oneflow
