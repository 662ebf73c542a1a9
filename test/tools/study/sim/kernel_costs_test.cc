// Costs of instructions and messages that were measured, as a file has them.
#include "tools/study/sim/kernel_costs.h"

#include <fstream>

#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/queues.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/study/sim/instruction_text.h"

namespace oneflow {
namespace {

constexpr char kRelu[] = "relu(f32[1000]) -> f32[1000]";
constexpr char kCopy[] = "copy f32[1000] sum: 1x [1000] in runs of 1000 from processes";

// relu@0, twice ──► copy@1, in another process ──► relu@1
struct Job {
  TestPlan plan{{0, 1}};
  OpRegistry ops = StandardOps();
  Topology topology = OneHost(2, 1, DeviceSpeeds());
  int work = plan.Actor(0, "work"), copy = plan.Actor(1, "copy"), after = plan.Actor(1, "after");

  Job() {
    plan.plan().mutable_actors(copy)->set_queue(kCommunicationQueue);
    const int x = plan.Register("x", {work}, {{copy}}, 1, 1000), y = plan.Register("y", {copy}, {{after}}, 1, 1000);
    for (int i = 0; i < 2; ++i) plan.Instruct(work, pb::Instruction::COMPUTE, "relu", {x}, {x});
    plan.Copy(copy, {x}, y);
    plan.Instruct(after, pb::Instruction::COMPUTE, "relu", {y}, {y});
  }

  absl::StatusOr<KernelCosts> Costs(const pb::KernelCosts& file, const PredictedCosts& predicted,
                                    const KernelCostsOptions& options = {}) {
    return KernelCosts::Of(file, plan.set(), 0, topology, predicted, options);
  }
  PredictedCosts Predicted() { return {plan.set(), 0, topology, ops}; }
};

pb::KernelCosts Measured() {
  pb::KernelCosts file;
  file.set_version(kKernelCostsVersion);
  for (const auto& [text, us] : {std::pair(kRelu, 3.0), {kCopy, 5.0}}) {
    pb::KernelCost& kernel = *file.add_kernels();
    kernel.set_instruction(text);
    kernel.set_us(us);
  }
  for (const auto& [between, us] : {std::pair("queues", 1.0), {"processes", 40.0}}) {
    pb::MessageCost& message = *file.add_messages();
    message.set_between(between);
    message.add_us(us);
  }
  pb::QueueCost& queue = *file.add_queues();
  queue.set_queue("communication");
  queue.add_wake_us(7);
  queue.add_pause_us(2);
  return file;
}

TEST(KernelCostsTest, AnActCostsTheSumOfItsInstructions) {
  Job job;
  const PredictedCosts predicted = job.Predicted();
  ASSERT_OK_AND_ASSIGN(const KernelCosts costs, job.Costs(Measured(), predicted));
  const SimulatedCosts simulated = costs.Costs();
  EXPECT_EQ(simulated.act(job.work, 0).ns, 6'000);
  EXPECT_EQ(simulated.act(job.copy, 0).ns, 5'000);
  EXPECT_EQ(simulated.message_ns(job.work, 0, job.copy, 0), 40'000);
  EXPECT_EQ(simulated.message_ns(job.copy, 0, job.after, 0), 1'000);
  EXPECT_EQ(simulated.wake_ns(job.copy, 0), 7'000);
  EXPECT_EQ(simulated.pause_ns(job.copy, 0), 2'000);
  EXPECT_EQ(simulated.wake_ns(job.work, 0), 0);
  EXPECT_EQ(costs.num_instructions(), 4);
  EXPECT_EQ(costs.num_predicted(), 0);
}

TEST(KernelCostsTest, WhatTheFileLacksIsNamedOrPredictedIfAskedFor) {
  Job job;
  const PredictedCosts predicted = job.Predicted();
  pb::KernelCosts file = Measured();
  file.mutable_kernels()->DeleteSubrange(1, 1);
  EXPECT_THAT(job.Costs(file, predicted),
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr(kCopy), HasSubstr("oneflow bench kernels"))));
  ASSERT_OK_AND_ASSIGN(const KernelCosts costs, job.Costs(file, predicted, {.or_roofline = true}));
  EXPECT_EQ(costs.num_predicted(), 1);
  const pb::Actor& copy = job.plan.plan().actors(job.copy);
  EXPECT_GT(costs.Costs().act(job.copy, 0).ns, 0);
  EXPECT_EQ(costs.Costs().act(job.copy, 0).ns, predicted.CostOf(copy, copy.instructions(0)).ns);

  file = Measured();
  file.mutable_messages()->DeleteSubrange(1, 1);
  EXPECT_THAT(job.Costs(file, predicted), StatusIs(absl::StatusCode::kNotFound, HasSubstr("between processes")));
  EXPECT_OK(job.Costs(file, predicted, {.or_roofline = true}));
}

TEST(KernelCostsTest, AnEmulatedLinkTakesItsTimeAtLeast) {
  Job job;
  const PredictedCosts predicted = job.Predicted();
  ASSERT_OK_AND_ASSIGN(const KernelCosts slow, job.Costs(Measured(), predicted, {.emulated_ns_per_byte = 10}));
  EXPECT_EQ(slow.Costs().act(job.copy, 0).ns, 40'000);
  EXPECT_EQ(slow.Costs().act(job.work, 0).ns, 6'000);
  ASSERT_OK_AND_ASSIGN(const KernelCosts fast, job.Costs(Measured(), predicted, {.emulated_ns_per_byte = 1}));
  EXPECT_EQ(fast.Costs().act(job.copy, 0).ns, 5'000);
}

TEST(KernelCostsTest, WhatVariesIsDrawnTheSameEveryTime) {
  Job job;
  const PredictedCosts predicted = job.Predicted();
  pb::KernelCosts file = Measured();
  for (const double factor : {1.0, 1.5, 2.0}) file.add_step_factors(factor);
  file.mutable_messages(1)->add_us(80);
  ASSERT_OK_AND_ASSIGN(const KernelCosts costs, job.Costs(file, predicted));
  ASSERT_OK_AND_ASSIGN(const KernelCosts again, job.Costs(file, predicted));
  std::map<int64_t, int> acts, messages;
  for (int64_t act = 0; act < 300; ++act) {
    const int64_t ns = costs.Costs().act(job.work, act).ns;
    EXPECT_EQ(ns, again.Costs().act(job.work, act).ns);
    ++acts[ns];
    ++messages[costs.Costs().message_ns(job.work, act, job.copy, 0)];
  }
  ASSERT_EQ(acts.size(), 3u);
  for (const int64_t ns : {6'000, 9'000, 12'000}) EXPECT_NEAR(acts[ns], 100, 40) << ns;
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_NEAR(messages[80'000], 150, 40);
}

TEST(KernelCostsTest, AFileIsReadBackAndAWrongOneRefusedByItsPlace) {
  TestDir dir;
  const std::string path = dir.File("kernels");
  const auto write = [&](const std::string& text) { std::ofstream(path, std::ios::binary) << text; };
  write(KernelCostsText(Measured()));
  ASSERT_OK_AND_ASSIGN(const pb::KernelCosts read, ReadKernelCosts(path));
  EXPECT_EQ(read.SerializeAsString(), Measured().SerializeAsString());
  EXPECT_THAT(ReadKernelCosts(dir.File("none")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none': cannot open: No such")));
  write("version: 1\nthread: 2\n");
  EXPECT_THAT(ReadKernelCosts(path), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("kernels':2:")));
  write("version: 7\n");
  EXPECT_THAT(ReadKernelCosts(path), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("format version 7")));
  write("version: 1\nkernels { instruction: 'relu' us: -1 }\n");
  EXPECT_THAT(ReadKernelCosts(path), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("relu: ")));
  write("version: 1\nmessages { between: 'ranks' }\n");
  EXPECT_THAT(ReadKernelCosts(path), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ranks: ")));
}

TEST(InstructionTextTest, SaysWhatTimeDependsOnAndNothingElse) {
  Job job;
  const pb::Plan& plan = job.plan.plan();
  const auto text = [&](int actor, const pb::Instruction& instruction) {
    return InstructionText(job.plan.set(), plan, plan.actors(actor), instruction);
  };
  pb::Instruction relu = plan.actors(job.work).instructions(0);
  EXPECT_EQ(text(job.work, relu), kRelu);
  EXPECT_EQ(text(job.copy, plan.actors(job.copy).instructions(0)), kCopy);
  relu.set_node("another layer");
  relu.mutable_inputs(0)->set_offset(64);
  for (const char* name : {"seed", "key"}) {
    pb::Attribute& attribute = *relu.add_attributes();
    attribute.set_name(name);
    attribute.set_i(5);
  }
  EXPECT_EQ(text(job.work, relu), kRelu);
  pb::Attribute& slope = *relu.add_attributes();
  slope.set_name("slope");
  slope.set_f(0.25);
  EXPECT_EQ(text(job.work, relu), "relu(f32[1000]) -> f32[1000] {slope=0.25}");
  relu.mutable_inputs(0)->set_dims(0, 999);
  EXPECT_EQ(text(job.work, relu), "relu(f32[999]) -> f32[1000] {slope=0.25}");
  // The same box of a rank's own, column by column, added.
  pb::Instruction copy = plan.actors(job.copy).instructions(0);
  pb::Piece& piece = *copy.mutable_pieces(0);
  piece.set_extent(0, 50);
  piece.set_source_stride(0, 20);
  piece.add_extent(20);
  piece.add_source_stride(1);
  piece.add_target_stride(1);
  piece.set_accumulate(true);
  EXPECT_EQ(text(job.copy, copy), "copy f32[1000] sum: 1x+ [50,20] in runs of 20 from processes");
}

}  // namespace
}  // namespace oneflow
