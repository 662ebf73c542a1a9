#include "tools/study/sim/kernel_groups.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

// Instructions on values of 100 elements in f32, each at a place of the workspace that has its name.
class ActorKit {
 public:
  ActorKit& Add(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
    pb::Instruction& x = *actor_.add_instructions();
    x.set_op(op);
    for (const std::string& input : inputs) SetPlace(input, *x.add_inputs());
    SetPlace(output, *x.add_outputs());
    return *this;
  }
  std::vector<double> Bytes(GradientSums sums = GradientSums::kOfProducts) const {
    return GroupKernels(actor_, sums).bytes;
  }

  ActorKit& SetDType(const std::string& name, pb::DType dtype) {
    for (pb::Instruction& x : *actor_.mutable_instructions()) {
      for (auto* const operands : {x.mutable_inputs(), x.mutable_outputs()}) {
        for (pb::Operand& operand : *operands) {
          if (operand.offset() == name[0]) operand.set_dtype(dtype);
        }
      }
    }
    return *this;
  }

 private:
  // Capital letters are in a register, which other acts read.
  static void SetPlace(const std::string& name, pb::Operand& operand) {
    operand.set_register_(name[0] < 'a' ? 0 : -1);
    operand.set_offset(name[0]);
    operand.add_dims(name == "b" ? 10 : 100);  // b: a bias
  }

  pb::Actor actor_;
};

constexpr double kValue = 400, kBias = 40;

TEST(KernelGroupsTest, AChainOfElementwiseOpsReadsAndWritesOnce) {
  ActorKit kit;
  kit.Add("bias_add", {"x", "b"}, "y").Add("gelu", {"y"}, "z");
  EXPECT_THAT(kit.Bytes(), ElementsAre(0, kValue + kBias + kValue));
}

TEST(KernelGroupsTest, WhatIsReadLaterOrByOthersIsWritten) {
  ActorKit later;
  later.Add("bias_add", {"x", "b"}, "y").Add("gelu", {"y"}, "z").Add("matmul", {"y", "w"}, "v");
  EXPECT_THAT(later.Bytes(), ElementsAre(0, kValue + kBias + 2 * kValue, 3 * kValue));
  ActorKit by_others;
  by_others.Add("bias_add", {"x", "b"}, "Y").Add("gelu", {"Y"}, "z");
  EXPECT_THAT(by_others.Bytes(), ElementsAre(0, kValue + kBias + 2 * kValue));
}

TEST(KernelGroupsTest, SoftmaxEndsAChainAndItsGradientBeginsOne) {
  ActorKit kit;
  kit.Add("scale", {"s"}, "t").Add("add", {"t", "m"}, "u").Add("softmax", {"u"}, "v").Add("dropout", {"v"}, "w");
  EXPECT_THAT(kit.Bytes(), ElementsAre(0, 0, 3 * kValue, 2 * kValue));
  ActorKit gradient;
  gradient.Add("dropout", {"d"}, "e").Add("softmax_grad", {"e", "v"}, "f").Add("scale", {"f"}, "g");
  EXPECT_THAT(gradient.Bytes(), ElementsAre(2 * kValue, 0, 3 * kValue));
}

TEST(KernelGroupsTest, AProductAddsToTheSumOfGradients) {
  ActorKit kit;
  kit.Add("matmul_wgrad", {"x", "d"}, "g").Add("cast", {"g"}, "h").Add("accumulate", {"h"}, "S");
  EXPECT_THAT(kit.Bytes(), ElementsAre(0, 0, 4 * kValue));  // S is read and written
}

TEST(KernelGroupsTest, ASumOfItsOwnIsAsWideAsTheFactors) {
  for (const bool cast : {true, false}) {
    ActorKit kit;
    kit.Add("matmul_wgrad", {"x", "d"}, "g");
    if (cast) kit.Add("cast", {"g"}, "h");
    kit.Add("accumulate", {cast ? "h" : "g"}, "S").SetDType("x", pb::BF16).SetDType("d", pb::BF16);
    const std::vector<double> bytes = kit.Bytes(GradientSums::kOfTheirOwn);
    EXPECT_EQ(bytes.front(), 1.5 * kValue) << "x and d are read, g is written";
    EXPECT_EQ(bytes.back(), 1.5 * kValue) << "g and S are read, S is written";
    EXPECT_EQ(bytes[bytes.size() - 2], cast ? 0 : bytes.front());
  }
}

TEST(KernelGroupsTest, ViewsMoveNothing) {
  ActorKit kit;
  kit.Add("reshape", {"x"}, "y").Add("transpose", {"y"}, "z").Add("batch_matmul", {"z", "w"}, "v");
  EXPECT_THAT(kit.Bytes(), ElementsAre(0, 0, 3 * kValue));
}

// An op that is none of a chain between two that are: what it makes comes from outside.
TEST(KernelGroupsTest, AChainGoesOnWithTheLastThatItReads) {
  ActorKit kit;
  kit.Add("gelu", {"x"}, "y").Add("matmul", {"y", "w"}, "v").Add("add", {"y", "v"}, "z");
  EXPECT_THAT(kit.Bytes(), ElementsAre(2 * kValue, 3 * kValue, 3 * kValue));
}

}  // namespace
}  // namespace oneflow
