#include "tools/study/sim/op_work.h"

#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

pb::Operand Operand(std::vector<int64_t> dims) {
  pb::Operand operand;
  operand.mutable_dims()->Add(dims.begin(), dims.end());
  return operand;
}

pb::Instruction& AddInstruction(pb::Actor& actor, pb::Instruction::Kind kind, const std::string& op) {
  pb::Instruction& instruction = *actor.add_instructions();
  instruction.set_kind(kind);
  instruction.set_op(op);
  return instruction;
}

// An actor that multiplies [8,4] by [4,2] once in each of three micro-batches and adds [6] and [6].
pb::Plan SmallPlan() {
  pb::Plan plan;
  pb::Actor& actor = *plan.add_actors();
  actor.set_acts_per_step(3);
  pb::Instruction& matmul = AddInstruction(actor, pb::Instruction::COMPUTE, "matmul");
  *matmul.add_inputs() = Operand({8, 4});
  *matmul.add_inputs() = Operand({4, 2});
  *matmul.add_outputs() = Operand({8, 2});
  pb::Instruction& add = AddInstruction(actor, pb::Instruction::COMPUTE, "add");
  for (int i = 0; i < 2; ++i) *add.add_inputs() = Operand({6});
  *add.add_outputs() = Operand({6});
  return plan;
}

TEST(WorkOfPlanTest, CountsFlopsAndBytesOfAllActsOfAStep) {
  const std::map<std::string, OpWork> work = WorkOfPlan(SmallPlan(), StandardOps());
  ASSERT_THAT(work, SizeIs(2));
  EXPECT_THAT(work.at("matmul").calls, DoubleEq(3));
  EXPECT_THAT(work.at("matmul").flops, DoubleEq(3 * 2 * 8 * 4 * 2));
  EXPECT_THAT(work.at("matmul").bytes, DoubleEq(3 * 4 * (32 + 8 + 16)));
  EXPECT_THAT(work.at("add").bytes, DoubleEq(3 * 4 * 18));
}

TEST(WorkOfPlanTest, ACopyMovesWhatItsPiecesCover) {
  pb::Plan plan;
  pb::Actor& actor = *plan.add_actors();
  actor.set_acts_per_step(1);
  pb::Instruction& copy = AddInstruction(actor, pb::Instruction::COPY, "");
  *copy.add_outputs() = Operand({100});
  for (const int64_t extent : {3, 5}) copy.add_pieces()->add_extent(extent);
  EXPECT_THAT(WorkOfPlan(plan, StandardOps()).at("copy").bytes, DoubleEq(2 * 4 * 8));
}

TEST(WorkOfPlanTest, WhatIsAddedToIsReadAndWritten) {
  pb::Plan plan;
  pb::Actor& actor = *plan.add_actors();
  actor.set_acts_per_step(1);
  pb::Instruction& sum = AddInstruction(actor, pb::Instruction::COMPUTE, "accumulate");
  *sum.add_inputs() = Operand({10});
  *sum.add_outputs() = Operand({10});
  pb::Instruction& sgd = AddInstruction(actor, pb::Instruction::COMPUTE, "sgd_update");
  for (const int64_t size : {10, 10, 10}) *sgd.add_inputs() = Operand({size});  // weight, velocity, gradient
  for (int i = 0; i < 2; ++i) *sgd.add_inputs() = Operand({});
  pb::Instruction& assign = AddInstruction(actor, pb::Instruction::COMPUTE, "assign");
  for (int i = 0; i < 2; ++i) *assign.add_inputs() = Operand({10});
  const std::map<std::string, OpWork> work = WorkOfPlan(plan, StandardOps());
  EXPECT_THAT(work.at("accumulate").bytes, DoubleEq(4 * 30));
  EXPECT_THAT(work.at("sgd_update").bytes, DoubleEq(4 * (50 + 2)));
  EXPECT_THAT(work.at("assign").bytes, DoubleEq(4 * 20));
}

// Of 100 flops/s in f32, 1000 in bf16, 10 bytes/s.
DeviceSpeeds SlowDevice() { return {.f32_flops = 100, .bf16_flops = 1000, .memory_bytes_per_s = 10}; }

TEST(FloorTest, IsTheLongerOfFlopsAndBytesOfEveryInstruction) {
  const DeviceSpeeds device = SlowDevice();
  const std::map<std::string, OpWork> work = WorkOfPlan(SmallPlan(), StandardOps(), &device);
  // 128 flops take 1.28 s, 4 * 56 bytes 22.4 s; of the sum 72 bytes 7.2 s; each in three acts.
  EXPECT_THAT(work.at("matmul").floor_seconds, DoubleEq(3 * 22.4));
  EXPECT_THAT(work.at("add").floor_seconds, DoubleEq(3 * 7.2));
  EXPECT_THAT(WorkOfPlan(SmallPlan(), StandardOps()).at("add").floor_seconds, DoubleEq(0));
}

TEST(FloorTest, ProductsHaveTheRateOfWhatTheyRead) {
  pb::Actor actor;
  pb::Instruction& matmul = AddInstruction(actor, pb::Instruction::COMPUTE, "matmul");
  *matmul.add_inputs() = Operand({1, 1});
  EXPECT_EQ(ProductRate(SlowDevice(), matmul), 100);
  matmul.mutable_inputs(0)->set_dtype(pb::BF16);
  EXPECT_EQ(ProductRate(SlowDevice(), matmul), 1000);
  EXPECT_THAT(FloorSeconds(matmul, {.flops = 5000, .bytes = 20}, SlowDevice()), DoubleEq(5));
}

TEST(FloorTest, OfATableOnlyTheRowsThatAreLookedUpCount) {
  pb::Actor actor;
  pb::Instruction& embedding = AddInstruction(actor, pb::Instruction::COMPUTE, "embedding");
  *embedding.add_inputs() = Operand({1000, 5});
  *embedding.add_outputs() = Operand({2, 5});
  EXPECT_THAT(FloorSeconds(embedding, {.bytes = 20'040}, SlowDevice()), DoubleEq(2 * 40 / 10.0));
  pb::Instruction& sum = AddInstruction(actor, pb::Instruction::COMPUTE, "add_embedding_grad");
  *sum.add_inputs() = Operand({1000, 5});
  *sum.add_inputs() = Operand({2, 5});
  EXPECT_THAT(FloorSeconds(sum, {.bytes = 40'040}, SlowDevice()), DoubleEq(3 * 40 / 10.0));
}

}  // namespace
}  // namespace oneflow
