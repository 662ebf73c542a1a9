#include "oneflow_core/functional.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

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
  const Tensor x = F32({2, 3}), y = F32({2, 3}), image = F32({2, 3, 8, 8}), kernel = F32({4, 3, 3, 3});
  const Tensor qkv = F32({2, 5, 6}), logits = F32({2, 7}), labels = I32({2}), length = I32({});
  const struct {
    Tensor result;
    const char* op;
    const char* type;
  } kCases[] = {
      {Add(x, y), "add", "f32[2,3]"},
      {Sub(x, y), "sub", "f32[2,3]"},
      {Mul(x, y), "mul", "f32[2,3]"},
      {Div(x, y), "div", "f32[2,3]"},
      {Maximum(x, y), "maximum", "f32[2,3]"},
      {Minimum(x, y), "minimum", "f32[2,3]"},
      {x + y, "add", "f32[2,3]"},
      {x - y, "sub", "f32[2,3]"},
      {x * y, "mul", "f32[2,3]"},
      {Scale(x, 2), "scale", "f32[2,3]"},
      {AddScalar(x, 2), "add_scalar", "f32[2,3]"},
      {Neg(x), "neg", "f32[2,3]"},
      {Exp(x), "exp", "f32[2,3]"},
      {Log(x), "log", "f32[2,3]"},
      {Sqrt(x), "sqrt", "f32[2,3]"},
      {Rsqrt(x), "rsqrt", "f32[2,3]"},
      {Square(x), "square", "f32[2,3]"},
      {Tanh(x), "tanh", "f32[2,3]"},
      {Sigmoid(x), "sigmoid", "f32[2,3]"},
      {Relu(x), "relu", "f32[2,3]"},
      {Gelu(x), "gelu", "f32[2,3]"},
      {Cast(x, DType::kBFloat16), "cast", "bf16[2,3]"},
      {BiasAdd(x, F32({3})), "bias_add", "f32[2,3]"},
      {BiasAdd(image, F32({3}), 1), "bias_add", "f32[2,3,8,8]"},
      {BiasAdd(image, F32({3}), -3), "bias_add", "f32[2,3,8,8]"},
      {Dropout(x, 0.5), "dropout", "f32[2,3]"},
      {ReduceSum(x, {-1}), "reduce_sum", "f32[2]"},
      {ReduceMean(x), "reduce_mean", "f32[]"},
      {ReduceMax(image, {-1, 0}, true), "reduce_max", "f32[1,3,8,1]"},
      {ReduceMin(image, {1}), "reduce_min", "f32[2,8,8]"},
      {Cumsum(image, -1), "cumsum", "f32[2,3,8,8]"},
      {Pad(x, {0, 1}, {2, 0}), "pad", "f32[4,4]"},
      {Reshape(x, {3, -1}), "reshape", "f32[3,2]"},
      {BroadcastTo(x, {4, 2, 3}), "broadcast_to", "f32[4,2,3]"},
      {Transpose(x, {1, 0}), "transpose", "f32[3,2]"},
      {Transpose(image, {0, -1, 1, 2}), "transpose", "f32[2,8,3,8]"},
      {Slice(x, -1, 1, 2), "slice", "f32[2,2]"},
      {Concat({x, y, x}, -1), "concat", "f32[2,9]"},
      {MatMul(x, F32({3, 4})), "matmul", "f32[2,4]"},
      {MatMul(x, F32({4, 3}), true), "matmul", "f32[2,4]"},
      {BatchMatMul(F32({5, 3, 2}), F32({5, 3, 4}), true), "batch_matmul", "f32[5,2,4]"},
      {Softmax(x), "softmax", "f32[2,3]"},
      {LayerNorm(x, F32({3}), F32({3})), "layer_norm", "f32[2,3]"},
      {RmsNorm(x, F32({3})), "rms_norm", "f32[2,3]"},
      {BatchNorm(image, F32({3}), F32({3})).y, "batch_norm", "f32[2,3,8,8]"},
      {BatchNorm(image, F32({3}), F32({3})).mean, "reduce_mean", "f32[3]"},
      {BatchNorm(image, F32({3}), F32({3})).var, "channel_variance", "f32[3]"},
      {BatchNorm(x, F32({3}), F32({3}), F32({3}), F32({3})), "batch_norm", "f32[2,3]"},
      {Embedding(F32({9, 4}), labels), "embedding", "f32[2,4]"},
      {Gather(image, labels, -2), "gather", "f32[2,3,2,8]"},
      {ScatterAdd(image, I32({3, 8}), -2, 9), "scatter_add", "f32[2,9,8]"},
      {TakeAlong(logits, I32({2, 3})), "take_along", "f32[2,3]"},
      {PutAlong(F32({2, 3}), I32({2, 3}), 7), "put_along", "f32[2,7]"},
      {TopK(logits, 3).values, "top_k", "f32[2,3]"},
      {TopK(logits, 3).indices, "top_k", "i32[2,3]"},
      {RowDot(x, y), "row_dot", "f32[2]"},
      {Attention(qkv, qkv, qkv, 3, true), "attention", "f32[2,5,6]"},
      {SoftmaxCrossEntropy(logits, labels), "softmax_cross_entropy", "f32[2]"},
      {Top1Correct(logits, labels), "top1_correct", "f32[2]"},
      {Conv2d(image, kernel, 1, 1), "conv2d", "f32[2,4,8,8]"},
      {MaxPool2d(image, 2, 2), "max_pool2d", "f32[2,3,4,4]"},
      {ReadText(b, 4, 8, {{"path", std::string("f")}}).labels, "read_data", "i32[4,8]"},
      {ReadImages(b, 4, 1, 28, 28).images, "read_data", "f32[4,1,28,28]"},
      {ReadImages(b, 4, 1, 28, 28).labels, "read_data", "i32[4]"},
      {Constant(b, {DType::kInt64, {2}}, 3), "constant", "i64[2]"},
      {SampleToken(F32({1, 8, 9}), length, 0.5), "sample_token", "i32[]"},
  };
  ASSERT_OK(b.status());
  for (const auto& c : kCases) {
    ASSERT_TRUE(c.result.valid()) << c.op;
    EXPECT_EQ(Producer(c.result).op, c.op);
    EXPECT_EQ(c.result.type().ToString(), c.type) << c.op;
    EXPECT_THAT(Producer(c.result).source, HasSubstr("functional_test.cc:")) << c.op;
  }
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
