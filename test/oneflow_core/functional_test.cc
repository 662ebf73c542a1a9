#include "oneflow_core/functional.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/op_facts.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

class FunctionalTest : public ::testing::Test {
 protected:
  Tensor F32(std::initializer_list<int64_t> sizes) { return Constant(b, {DType::kFloat32, Shape(sizes)}, 1); }
  Tensor I32(std::initializer_list<int64_t> sizes) { return Constant(b, {DType::kInt32, Shape(sizes)}, 1); }
  const Node& Producer(Tensor t) const { return b.graph().node(b.graph().value(t.id()).producer); }
  const Node& LastNode() const { return b.graph().node(b.graph().num_nodes() - 1); }

  const OpRegistry ops = StandardOps();
  GraphBuilder b{ops, "g"};
};

TEST_F(FunctionalTest, EveryFunctionAddsItsOpAndReturnsItsType) {
  int calls = 0;
  for (const testing::OpFacts& facts : testing::AllOpFacts()) {
    for (const testing::DslCall& call : facts.dsl) {
      SCOPED_TRACE(absl::StrCat(call.op, " of ", call.type));
      const Tensor result = call.make({b});
      ASSERT_OK(b.status());
      ASSERT_TRUE(result.valid());
      EXPECT_EQ(Producer(result).op, call.op);
      EXPECT_EQ(result.type().ToString(), call.type);
      EXPECT_THAT(Producer(result).source, HasSubstr("ops/"));
      ++calls;
    }
  }
  EXPECT_GT(calls, 60);
}

TEST_F(FunctionalTest, OperatorsAreFunctions) {
  const Tensor x = F32({2, 3}), y = F32({2, 3});
  EXPECT_EQ(Producer(x + y).op, "add");
  EXPECT_EQ(Producer(x - y).op, "sub");
  EXPECT_EQ(Producer(x * y).op, "mul");
  EXPECT_EQ(Producer(x / y).op, "div");
  EXPECT_EQ(Producer(-x).op, "neg");
}

TEST_F(FunctionalTest, OperatorsTakeNumbers) {
  const Tensor x = F32({2, 3});
  const auto alpha = [&](const Tensor& y) { return Producer(y).attrs.Double("alpha"); };
  for (const Tensor& sum : {x + 3, 3 + x}) {
    EXPECT_EQ(Producer(sum).op, "add_scalar");
    EXPECT_EQ(alpha(sum), 3);
    EXPECT_EQ(Producer(sum).inputs[0], x.id());
  }
  EXPECT_EQ(alpha(x - 3), -3);
  const Tensor from = 3 - x;
  EXPECT_EQ(alpha(from), 3);
  EXPECT_EQ(b.graph().node(b.graph().value(Producer(from).inputs[0]).producer).op, "neg");
  for (const Tensor& product : {x * 0.5, 0.5 * x, x / 2}) {
    EXPECT_EQ(Producer(product).op, "scale");
    EXPECT_EQ(alpha(product), 0.5);
  }
  const Tensor inverse = 2 / x;
  EXPECT_EQ(alpha(inverse), 2);
  EXPECT_EQ(b.graph().node(b.graph().value(Producer(inverse).inputs[0]).producer).op, "reciprocal");
  EXPECT_THAT(Producer(x * 2).source, EndsWith(absl::StrCat(":", std::source_location::current().line())));
}

TEST_F(FunctionalTest, EffectsAddANodeWithoutOutputs) {
  const Tensor v = b.Variable("v", {DType::kFloat32, {2}}, "zeros", {}, false);
  const Tensor step = b.Variable("step", {DType::kInt64, {}}, "zeros", {}, false);
  const Tensor tokens = b.Variable("tokens", {DType::kInt32, {1, 8}}, "zeros", {}, false);
  const Tensor length = b.Variable("length", {DType::kInt32, {}}, "zeros", {}, false);
  Fetch(v, "v");
  EXPECT_EQ(LastNode().op, "fetch");
  EXPECT_EQ(LastNode().attrs.String("name"), "v");
  Assign(v, F32({2}));
  EXPECT_EQ(LastNode().op, "assign");
  Increment(step);
  EXPECT_EQ(LastNode().op, "increment");
  EmaUpdate(v, F32({2}), 0.75);
  EXPECT_EQ(LastNode().op, "ema_update");
  EXPECT_EQ(LastNode().attrs.Double("decay"), 0.75);
  AppendToken(tokens, length, I32({}));
  EXPECT_EQ(LastNode().op, "append_token");
  EXPECT_OK(b.status());
}

// The gradient of a batch norm depends on it.
TEST_F(FunctionalTest, ABatchNormKnowsWhetherItsStatisticsAreItsInputsOwn) {
  const Tensor x = F32({2, 3, 4}), c = F32({3});
  const Node own = Producer(BatchNorm(x, c, c).y), given = Producer(BatchNorm(x, c, c, c, c));
  EXPECT_TRUE(own.attrs.Bool("training"));
  EXPECT_FALSE(given.attrs.Bool("training"));
}

TEST_F(FunctionalTest, NodesRememberTheLineThatMadeThem) {
  const Tensor x = F32({2});
  const Tensor y = Relu(x);
  EXPECT_THAT(Producer(y).source, EndsWith(absl::StrCat("functional_test.cc:", __LINE__ - 1)));
  const Tensor z = y + x;  // operators too
  EXPECT_THAT(Producer(z).source, EndsWith(absl::StrCat("functional_test.cc:", __LINE__ - 1)));
}

TEST_F(FunctionalTest, WhatChangesNothingAddsNoNode) {
  const Tensor x = F32({2});
  EXPECT_EQ(Dropout(x, 0).id(), x.id());
  EXPECT_EQ(Cast(x, DType::kFloat32).id(), x.id());
}

TEST_F(FunctionalTest, TheFirstErrorSticksAndLaterCallsReturnInvalidTensors) {
  const Tensor x = F32({2, 3});
  const Tensor bad = MatMul(x, F32({4, 5}));
  const int line = __LINE__ - 1;
  EXPECT_FALSE(bad.valid());
  EXPECT_FALSE(Relu(bad).valid());
  EXPECT_FALSE((x + bad).valid());
  EXPECT_FALSE(ReduceMean(Reshape(bad, {-1})).valid());
  EXPECT_FALSE(Concat({bad, x}, 0).valid());
  Fetch(bad, "bad");
  EXPECT_THAT(b.Finish(), testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                            AllOf(HasSubstr("node 'matmul' (matmul, "),
                                                  HasSubstr(absl::StrCat("functional_test.cc:", line, ")")),
                                                  HasSubstr("inner dimensions differ: a is f32[2,3], w is f32[4,5]"))));
}

TEST_F(FunctionalTest, ATensorThatWasNeverMadeIsAnError) {
  EXPECT_FALSE(Add(F32({2}), Tensor()).valid());
  EXPECT_THAT(b.status(), testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no tensor of this graph")));
}

TEST_F(FunctionalTest, OfInvalidTensorsOnlyNothingHappens) {
  EXPECT_FALSE(Add(Tensor(), Tensor()).valid());
  EXPECT_FALSE(Concat({}, 0).valid());
  EXPECT_FALSE(Reshape(Tensor(), {-1}).valid());
  EXPECT_FALSE(ReduceSum(Tensor(), {-1}).valid());
}

TEST_F(FunctionalTest, ASizeThatCannotBeResolvedIsRefusedWithBothShapes) {
  const struct {
    std::vector<int64_t> shape;
    const char* message;
  } kCases[] = {
      {{4, -1}, "x is f32[2,3]: attribute 'shape' is [4,-1]: size -1 is negative"},
      {{-1, -1}, "x is f32[2,3]: attribute 'shape' is [-1,-1]: size -1 is negative"},
      {{0, -1}, "x is f32[2,3]: attribute 'shape' is [0,-1]: size -1 is negative"},
      {{-2, -1}, "x is f32[2,3]: attribute 'shape' is [-2,-1]: size -2 is negative"},
      {{5}, "x is f32[2,3] and has 6 elements, shape [5] has 5"},
  };
  for (const auto& c : kCases) {
    GraphBuilder builder(ops, "g");
    Reshape(Constant(builder, {DType::kFloat32, {2, 3}}, 0), c.shape);
    EXPECT_THAT(builder.Finish(), testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST_F(FunctionalTest, AnAxisThatDoesNotExistIsRefused) {
  EXPECT_FALSE(ReduceSum(F32({2, 3}), {-3}).valid());
  EXPECT_THAT(b.Finish(), testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("'axes' is [-1] but must be ascending dimensions of x")));
}

TEST_F(FunctionalTest, AReaderThatFailsReturnsInvalidTensors) {
  const TextBatch batch = ReadText(b, 0, 8);
  EXPECT_FALSE(batch.tokens.valid());
  EXPECT_FALSE(batch.labels.valid());
}

}  // namespace
}  // namespace oneflow
