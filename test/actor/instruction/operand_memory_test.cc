#include "actor/instruction/operand_memory.h"

#include <functional>

#include "gtest/gtest.h"
#include "oneflow_core/zones.h"
#include "test/actor/test_plan.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr int kX = 0, kY = 1, kFar = 2;  // registers of four f32; the last is of another rank

// What is said of an op of the actor that reads x, in two slots of 64 bytes, and y and fills both.
absl::Status Check(const std::string& op, const std::vector<int>& inputs, const std::vector<int>& outputs,
                   const std::function<void(TestPlan&, pb::Instruction&)>& change = nullptr) {
  TestPlan plan({0, 0});
  const int a = plan.Actor(0, "a"), far = plan.Actor(1, "far");
  plan.Register("x", {a}, {}, 2);
  plan.Register("y", {a}, {}, 1);
  plan.Register("far", {far}, {{a}}, 1);
  pb::Instruction& instruction = *plan.Compute(a, op, inputs, outputs);
  if (change) change(plan, instruction);
  return CheckOperandMemory(*Ops().Find(op), plan.plan(), plan.plan().actors(a), instruction);
}

auto Refused(const std::string& why) { return StatusIs(absl::StatusCode::kInvalidArgument, why); }

void PutOutputAt(pb::Instruction& instruction, int64_t offset) {
  instruction.mutable_outputs(0)->set_register_(-1);
  instruction.mutable_outputs(0)->set_zone(kSharedZone);
  instruction.mutable_outputs(0)->set_offset(offset);
}

TEST(OperandMemoryTest, AnOutputLiesOnAnInputWhereTheOpWorksInPlace) {
  EXPECT_OK(Check("relu", {kX}, {kY}));
  EXPECT_OK(Check("relu", {kX}, {kX}));
  EXPECT_OK(Check("mul", {kX, kX}, {kY}));
  const char* const overlap =
      "output 0, 16 bytes at 0 of the shared zone, overlaps input 0, 16 bytes at 0 of the shared zone";
  EXPECT_THAT(Check("softmax", {kX}, {kX}), Refused(overlap));
  EXPECT_THAT(
      Check("relu", {kX}, {kX}, [](auto&, pb::Instruction& x) { x.mutable_outputs(0)->set_offset(8); }),
      Refused("output 0, 16 bytes at 8 of the shared zone, overlaps input 0, 16 bytes at 0 of the shared zone"));
}

TEST(OperandMemoryTest, OtherOperandsAreApartInEverySlot) {
  EXPECT_THAT(
      Check("relu", {kX}, {kY}, [](auto&, pb::Instruction& x) { PutOutputAt(x, 64); }),
      Refused("output 0, 16 bytes at 64 of the shared zone, overlaps input 0, 16 bytes at 0 of the shared zone"));
  EXPECT_OK(Check("relu", {kX}, {kY}, [](auto&, pb::Instruction& x) { PutOutputAt(x, 128); }));
  EXPECT_OK(Check("relu", {kX}, {kY}, [](auto&, pb::Instruction& x) {
    PutOutputAt(x, 0);
    x.mutable_outputs(0)->set_zone(kPrivateZone);
  }));
  EXPECT_OK(Check("relu", {kX}, {kY}, [](auto&, pb::Instruction& x) {
    PutOutputAt(x, 64);
    x.mutable_outputs(0)->set_dims(0, 0);
  }));
  EXPECT_THAT(
      Check("softmax_loss", {}, {kX, kX}),
      Refused("output 1, 16 bytes at 0 of the shared zone, overlaps output 0, 16 bytes at 0 of the shared zone"));
}

TEST(OperandMemoryTest, ScratchMemoryIsApartFromOperands) {
  const auto scratch_at = [](int64_t offset) {
    return [offset](TestPlan&, pb::Instruction& x) {
      PutOutputAt(x, 128);
      x.mutable_outputs(0)->set_zone(kPrivateZone);
      x.set_scratch_offset(offset);
      x.set_scratch_bytes(64);
    };
  };
  EXPECT_OK(Check("relu", {kX}, {kY}, scratch_at(64)));
  EXPECT_OK(Check("relu", {kX}, {kY}, scratch_at(192)));
  EXPECT_THAT(Check("relu", {kX}, {kY}, scratch_at(128)),
              Refused("scratch memory, 64 bytes at 128 of the private zone, overlaps output 0, 16 bytes at 128 of the "
                      "private zone"));
}

TEST(OperandMemoryTest, OverwritesOnlyWhatIsTheActorsToWrite) {
  EXPECT_OK(Check("assign", {kX, kY}, {}));
  EXPECT_THAT(Check("assign", {kX, kX}, {}),
              Refused("input 0, 16 bytes at 0 of the shared zone, overlaps input 1, 16 bytes at 0 of the shared zone"));
  EXPECT_THAT(
      Check("assign", {kX, kY}, {}, [](TestPlan& plan, auto&) { plan.plan().mutable_actors(0)->clear_outputs(); }),
      Refused("input 0 is overwritten but register 0 is no output of the actor"));
}

TEST(OperandMemoryTest, AKernelUsesItsOwnRanksMemory) {
  EXPECT_THAT(Check("relu", {kFar}, {kY}),
              Refused("input 0 lies on rank 1 but a kernel of rank 0 uses its own memory"));
}

}  // namespace
}  // namespace oneflow
