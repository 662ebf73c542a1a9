#include "oneflow_core/ragged.h"

#include <functional>
#include <optional>

#include "gmock/gmock.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

class RaggedTest : public ::testing::Test {
 protected:
  RaggedTest() { Begin(); }
  void Begin() {
    b_.emplace(ops_, "g");
    counts_ = Counts({8});
  }
  Tensor Dense(Shape shape) { return Constant(*b_, {DType::kFloat32, std::move(shape)}, 1); }
  Tensor Counts(Shape shape) { return Constant(*b_, {DType::kInt32, std::move(shape)}, 2); }
  // f32[8,64~,32].
  Tensor Rows() { return KeepRows(Dense({8, 64, 32}), counts_); }

  const Node& NodeOf(Tensor x) const { return b_->graph().node(b_->graph().value(x.id()).producer); }

  const OpRegistry ops_ = StandardOps();
  std::optional<GraphBuilder> b_;
  Tensor counts_;
};

TEST_F(RaggedTest, WhatReadsRowsByItsRuleReadsTheirCountsTooAndGivesRows) {
  const Tensor x = Rows(), w = Dense({32, 16});
  const Tensor y = Gelu(BiasAdd(MatMul(x, w), Dense({16})));
  EXPECT_EQ(y.type().ToString(), "f32[8,64~,16]");
  EXPECT_EQ(NodeOf(y).inputs.back(), counts_.id());
  EXPECT_EQ(CountsOf(b_->graph(), y.id()), counts_.id());
  EXPECT_EQ(Add(x, Dense({8, 64, 32})).type().ToString(), "f32[8,64~,32]") << "a dense operand has rows to spare";
  EXPECT_EQ(BatchMatMul(x, Dense({8, 32, 4})).type().ToString(), "f32[8,64~,4]");
  EXPECT_EQ(x.To({{"dp", Sbp::Split(0)}}).type(), x.type());
  EXPECT_OK(b_->status());
}

// By groups, if outputs have the first ones of them, or none.
TEST_F(RaggedTest, SumsOverRowsReadThoseThatAreFilled) {
  const Tensor x = Rows();
  const struct {
    Tensor sum;
    const char* type;
  } kCases[] = {
      {ReduceSum(Square(x)), "f32[]"},
      {ReduceSum(x, {1}), "f32[8,32]"},
      {ReduceSum(x, {0, 1}, /*keepdims=*/true), "f32[1,1,32]"},
      {b_->Op1("bias_grad", {x}), "f32[32]"},
      {b_->Op1("matmul_wgrad", {x, Rows()}), "f32[32,32]"},
      {b_->Op1("batch_matmul", {x, Rows()}, {{"transpose_a", true}}), "f32[8,32,32]"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(c.sum.type().ToString(), c.type);
    EXPECT_EQ(NodeOf(c.sum).inputs.back(), counts_.id()) << NodeOf(c.sum).op;
  }
  EXPECT_OK(b_->status());
}

// Of whichever groups; where outputs have the rows, behind those that are filled are zeros.
TEST_F(RaggedTest, SumsThatMixGroupsReadThoseThatAreFilled) {
  const Tensor counts = Counts({8, 4}), x = KeepRows(Dense({8, 4, 64, 32}), counts);
  const struct {
    Tensor sum;
    const char* type;
  } kCases[] = {
      {ReduceSum(x, {0, 2}), "f32[4,32]"},  {ReduceSum(x, {0, 2}, /*keepdims=*/true), "f32[1,4,1,32]"},
      {ReduceSum(x, {3}), "f32[8,4,64]"},   {ReduceSum(x, {1}), "f32[8,64,32]"},
      {ReduceSum(x, {0, 1, 3}), "f32[64]"}, {b_->Op1("bias_grad", {x}, {{"axis", int64_t{1}}}), "f32[4]"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(c.sum.type().ToString(), c.type);
    EXPECT_EQ(NodeOf(c.sum).inputs.back(), counts.id()) << NodeOf(c.sum).op << " to " << c.type;
  }
  const std::vector<std::vector<int64_t>> kShapes = {{4, 1, 1}, {8, 1, 1, 32}, {64, 1}, {1, 4, 64, 1}, {8, 4, 64, 32}};
  for (const std::vector<int64_t>& shape : kShapes) {
    for (const auto& [name, op] : ops_.all()) {
      if (op.ragged != RaggedUse::kSums) continue;
      const AttrMap attrs = {{"axes", std::vector<int64_t>{0, 2}}, {"axis", int64_t{2}}, {"shape", shape}};
      const Tensor sum = b_->Op1(name, {x}, attrs);
      EXPECT_FALSE(sum.type().is_ragged()) << name;
      EXPECT_EQ(NodeOf(sum).inputs.back(), counts.id()) << name << " to " << sum.type().ToString();
    }
  }
  EXPECT_OK(b_->status());
}

// Sums of 16-bit numbers are rounded once: not with each group's rows.
TEST_F(RaggedTest, SumsOfGroupsThatWouldBeRoundedOneByOneReadPaddedRows) {
  const Tensor x = KeepRows(Constant(*b_, {DType::kBFloat16, {8, 64, 32}}, 1), counts_);
  const Tensor sum = ReduceSum(x, {0});
  EXPECT_EQ(sum.type().ToString(), "bf16[64,32]");
  EXPECT_EQ(NodeOf(Tensor(&*b_, NodeOf(sum).inputs[0])).op, "pad_rows");
  EXPECT_OK(b_->status());
}

TEST_F(RaggedTest, WhatHasNoMeaningIsRefusedAndTold) {
  const struct {
    std::function<void()> make;
    const char* message;
  } kCases[] = {
      {[&] {
         Reshape(Rows(), {8, 64 * 32});
       },
       "takes no ragged operands; pad_rows makes them dense"},
      {[&] { ReduceMax(Rows(), {1}); }, "takes no ragged operands"},
      {[&] {
         Softmax(KeepRows(Dense({8, 64}), counts_));
       },
       "works along the ragged dimension of f32[8,64~]"},
      {[&] {
         b_->Op1("exp_sum", {KeepRows(Dense({8, 64}), counts_), Dense({8})});
       },
       "zeros would change the result"},
      {[&] {
         Add(Rows(), KeepRows(Dense({8, 64, 32}), Counts({8, 64})));
       },
       "have different rows"},
      {[&] {
         Add(Rows(), KeepRows(Dense({8, 64, 32}), Counts({8})));
       },
       "ragged inputs have different counts"},
      {[&] {
         Mul(Rows(), Dense({3, 8, 64, 32}));
       },
       "output 0 would be f32[3,8,64,32], whose ragged rows are behind"},
      {[&] {
         Assign(b_->Variable("v", {DType::kFloat32, {8, 64, 32}}, "zeros"), Rows());
       },
       "the op gives nothing"},
      {[&] {
         PadRows(Dense({8, 64}));
       },
       "counts is f32[8,64] but must be i32"},
  };
  for (const auto& c : kCases) {
    Begin();
    c.make();
    EXPECT_THAT(b_->Finish(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST_F(RaggedTest, TextKeepsTheMarkAndRefusesWrongOnes) {
  Fetch(Relu(Rows()), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, b_->Finish());
  const std::string text = GraphToText(graph);
  EXPECT_THAT(text, HasSubstr("f32[8,64~,32] = relu("));
  ASSERT_OK_AND_ASSIGN(const Graph again, GraphFromText(text, ops_));
  EXPECT_EQ(GraphToText(again), text);
  for (const char* type : {"f32[~8]", "f32[8~~]", "f32[8~,4~]", "f32[8~4]", "f32[~]"}) {
    EXPECT_THAT(TensorType::Parse(type), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("type '"))) << type;
  }
  EXPECT_EQ(TensorType::Parse("i32[4,5~]")->ragged, 1);
}

TEST_F(RaggedTest, CountsLieWithTheirGroups) {
  const TensorType type = *TensorType::Parse("f32[8,4,64~,32]");
  EXPECT_EQ(CountsType(type).ToString(), "i32[8,4]");
  ASSERT_OK_AND_ASSIGN(const Placement placement, Placement::Parse("[a=2,b=2,c=2]{0,1,2,3,4,5,6,7}"));
  const DistType dist{placement, {Sbp::Split(1), Sbp::Partial(), Sbp::Split(2)}};
  EXPECT_THAT(CountsDist(type, dist).sbp, ElementsAre(Sbp::Split(1), Sbp::Broadcast(), Sbp::Broadcast()));
  const DistType own{placement, {Sbp::Mean(), Sbp::Split(0), Sbp::Split(2)}};
  EXPECT_THAT(CountsDist(type, own).sbp, ElementsAre(Sbp::Mean(), Sbp::Split(0), Sbp::Broadcast()));
}

TEST_F(RaggedTest, AMeanOfRowsIsOfThoseThatAreFilled) {
  const Tensor counts = Counts({8, 4}), x = KeepRows(Dense({8, 4, 64, 32}), counts);
  const struct {
    Tensor mean;
    const char* type;
    const char* made_by;
  } kCases[] = {
      {ReduceMean(x), "f32[]", "div"},
      {ReduceMean(x, {2}), "f32[8,4,32]", "div"},
      {ReduceMean(x, {0, 2}), "f32[4,32]", "div"},
      {ReduceMean(x, {1, -2}, /*keepdims=*/true), "f32[8,1,1,32]", "div"},
      {ReduceMean(x, {2, 3}, /*keepdims=*/true), "f32[8,4,1,1]", "div"},
      {ReduceMean(Cast(x, DType::kBFloat16), {2, 3}), "bf16[8,4]", "cast"},
      {ReduceMean(x, {3}), "f32[8,4,64~]", "reduce_mean"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(c.mean.type().ToString(), c.type);
    EXPECT_EQ(NodeOf(c.mean).op, c.made_by) << c.type;
  }
  EXPECT_OK(b_->status());
}

// As text may say it.
TEST_F(RaggedTest, ReduceMeanRefusesToCountRowsThatAreNotFilled) {
  b_->Op1("reduce_mean", {Rows()}, {{"axes", std::vector<int64_t>{1, 2}}});
  EXPECT_THAT(b_->status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("'reduce_mean' over the ragged rows of f32[8,64~,32]")));
}

}  // namespace
}  // namespace oneflow
