#include "tools/job/packed_program.h"

#include <functional>
#include <optional>

#include "compiler/lower/compile.h"
#include "compiler/lower/program.h"
#include "compiler/lower/program_text.h"
#include "gmock/gmock.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/models/gpt.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/zones.h"
#include "proto/plan.pb.h"
#include "test/support/status_matchers.h"
#include "tools/job/kernel_scratch.h"

namespace oneflow {
namespace {

// A GPT on pp2 x dp2 x tp2, all ranks in one process or two.
absl::StatusOr<pb::PlanSet> Plan(DeviceKind device, int ranks_per_process) {
  const OpRegistry ops = StandardOps();
  const GptConfig config{.vocabulary = 64, .layers = 4, .width = 32, .heads = 4, .context = 16};
  OF_ASSIGN_OR_RETURN(const Program program, GptProgram(config, {.path = "text"}, {.train = 6}, std::nullopt, ops));
  CompileOptions options;
  options.job = "packed";
  options.device = device;
  options.micro_batches = 2;
  options.ranks_per_process = ranks_per_process;
  options.kernel_scratch = ScratchOfKernels(device, 1);
  OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create({{"pp", 2}, {"dp", 2}, {"tp", 2}}));
  return Compile(program, options, ops, nullptr);
}

// Ragged rows that go from one half of 4 ranks, in two processes, to the other.
absl::StatusOr<pb::PlanSet> RaggedPlan(DeviceKind device) {
  const OpRegistry ops = StandardOps();
  GraphBuilder b(ops, "forward");
  const Tensor x = b.Variable("x", {DType::kFloat32, {4, 8, 6}}, "ones", {{"dp", Sbp::Split(0)}});
  const Tensor counts = b.Variable("counts", {DType::kInt32, {4}}, "list(3,0,8,5)", {}, false);
  Fetch(ReduceSum(Square(KeepRows(x, counts).To({{"dp", Sbp::Split(2)}}))), "sum");
  OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
  CompileOptions options;
  options.job = "packed";
  options.device = device;
  options.ranks_per_process = 2;
  OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create({{"dp", 4}}));
  return Compile({std::move(graph)}, options, ops, nullptr);
}

void ExpectSameAgain(const pb::PlanSet& plan) {
  for (const std::optional<int> process : {std::optional<int>(0), std::optional<int>(1), std::optional<int>()}) {
    ASSERT_OK_AND_ASSIGN(const pb::Program program, ProgramOf(plan, process, "hash"));
    ASSERT_OK_AND_ASSIGN(const pb::Program again, UnpackProgram(PackProgram(program)));
    EXPECT_EQ(again.SerializeAsString(), program.SerializeAsString());
  }
}

TEST(PackedProgramTest, LayoutsInMemoryAreKept) {
  const OpRegistry ops = StandardOps();
  GraphBuilder b(ops, "forward");
  Tensor x = b.Variable("x", {DType::kFloat32, {4, 16, 6, 6}}, "ones", {{"dp", Sbp::Split(0)}});
  for (const char* name : {"a", "b"}) {
    x = Conv2d(x, b.Variable(name, {DType::kFloat32, {16, 16, 3, 3}}, "ones"), /*stride=*/1, /*padding=*/1);
  }
  Fetch(ReduceMean(ReduceMean(x, {2, 3})), "mean");
  CompileOptions options;
  options.job = "packed";
  options.mesh = *Mesh::Create({{"dp", 2}});
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, Compile({*b.Finish()}, options, ops, nullptr));
  ASSERT_OK_AND_ASSIGN(const pb::Program program, ProgramOf(plan, std::nullopt, "hash"));
  EXPECT_THAT(ProgramText(program), HasSubstr("f32[2,16,6,6] blocks of [4,16,6,6] at "));
  ExpectSameAgain(plan);
}

TEST(PackedProgramTest, UnpackingGivesTheProgramAgain) {
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, Plan(device, 4));
    ExpectSameAgain(plan);
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet ragged, RaggedPlan(device));
    ExpectSameAgain(ragged);
  }
}

TEST(PackedProgramTest, FourRanksOfAProcessTakeLessThanThree) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet one, Plan(DeviceKind::kCuda, 1));
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet four, Plan(DeviceKind::kCuda, 4));
  ASSERT_OK_AND_ASSIGN(const pb::Program of_one, ProgramOf(one, 0, ""));
  ASSERT_OK_AND_ASSIGN(const pb::Program of_four, ProgramOf(four, 0, ""));
  EXPECT_GT(of_four.ByteSizeLong(), 3 * of_one.ByteSizeLong());
  EXPECT_LT(PackProgram(of_four).ByteSizeLong(), 5 * PackProgram(of_one).ByteSizeLong() / 2);
  EXPECT_LT(PackProgram(of_four).ByteSizeLong(), of_four.ByteSizeLong() / 2);
}

TEST(PackedProgramTest, WhatDoesNotFitTogetherIsRefused) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, Plan(DeviceKind::kCuda, 4));
  ASSERT_OK_AND_ASSIGN(const pb::Program program, ProgramOf(plan, 0, ""));
  const pb::PackedProgram good = PackProgram(program);
  const auto instruction = [](pb::PackedProgram& p) {
    for (pb::PackedActors& actors : *p.mutable_plans(0)->mutable_actors()) {
      if (actors.instructions_size() > 0) return actors.mutable_instructions(0);
    }
    return static_cast<pb::PackedInstruction*>(nullptr);
  };
  const struct {
    std::function<void(pb::PackedProgram&)> change;
    std::string error;
  } cases[] = {
      {[&](pb::PackedProgram& p) { instruction(p)->set_node(p.texts_size()); }, "text"},
      {[&](pb::PackedProgram& p) { instruction(p)->set_attributes(-1); }, "attributes -1 is not one of"},
      {[&](pb::PackedProgram& p) { instruction(p)->clear_moves(); }, "0 moves where there are"},
      {[&](pb::PackedProgram& p) { instruction(p)->mutable_outputs(0)->set_shape(1 << 30); }, "shape"},
      {[&](pb::PackedProgram& p) { instruction(p)->mutable_outputs(0)->set_port(-1); }, "port -1 is not one of"},
      {[&](pb::PackedProgram& p) { p.mutable_plans(0)->mutable_actors(0)->add_ranks(0); }, "ranks where there are"},
      {[&](pb::PackedProgram& p) { p.mutable_plans(0)->mutable_actors(0)->add_registers(0); }, "registers where"},
      {[&](pb::PackedProgram& p) { p.mutable_plans(0)->mutable_registers(0)->add_consumers(0); }, "consumers where"},
      {[&](pb::PackedProgram& p) { p.mutable_plans(0)->mutable_registers(0)->set_num_consumers(0, -1); },
       "consumers end"},
      {[&](pb::PackedProgram& p) { p.mutable_variables(0)->add_zones(kSharedZone); }, "zones where there are"},
      {[&](pb::PackedProgram& p) { *p.mutable_head()->add_plans() = p.plans(0).head(); }, "its head has"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.error);
    pb::PackedProgram bad = good;
    c.change(bad);
    EXPECT_THAT(UnpackProgram(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
  }
}

// A few kilobytes that say the same large part very often.
TEST(PackedProgramTest, AFewBytesDoNotBecomeMany) {
  pb::PackedProgram packed;
  packed.add_texts(std::string(1 << 16, 'x'));
  packed.add_attributes();
  packed.add_moves();
  pb::PackedActors& actors = *packed.add_plans()->add_actors();
  for (int i = 0; i < 4096; ++i) {
    actors.add_ids(i);
    actors.add_ranks(0);
    pb::PackedInstruction& instruction = *actors.add_instructions();
    instruction.add_moves(0);
    instruction.add_communicators(0);
  }
  for (int i = 0; i < (1 << 16); ++i) packed.mutable_moves(0)->add_pieces();
  EXPECT_THAT(UnpackProgram(packed), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("parts")));
}

}  // namespace
}  // namespace oneflow
