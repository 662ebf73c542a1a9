#include "compiler/lower/compile.h"

#include <map>

#include "compiler/lower/lower.h"
#include "compiler/lower/plan_text.h"
#include "compiler/lower/program.h"
#include "compiler/lower/program_text.h"
#include "compiler/lower/wait_graph.h"
#include "oneflow_core/zones.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/compiler/plan/random_job.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

absl::StatusOr<pb::PlanSet> PlanOf(const StepShape& shape, int ranks_per_process = 1) {
  return CompileBoxed({{TrainingStep(shape), shape.micro_batches}}, OptionsFor(shape, ranks_per_process), Ops());
}

// As above, with every rank spelled out.
absl::StatusOr<pb::Program> ProgramOfAll(const StepShape& shape, int ranks_per_process = 1) {
  OF_ASSIGN_OR_RETURN(const pb::PlanSet set, PlanOf(shape, ranks_per_process));
  return ProgramOf(set, std::nullopt, "");
}

const pb::Instruction* Find(const pb::Plan& plan, const std::string& node, int rank) {
  for (const pb::Actor& actor : plan.actors()) {
    for (const pb::Instruction& instruction : actor.instructions()) {
      if (actor.rank() == rank && instruction.node() == node) return &instruction;
    }
  }
  return nullptr;
}

TEST(CompileTest, TwoCompilationsGiveTheSameBytes) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet a, PlanOf({3, 2, 4}));
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet b, PlanOf({3, 2, 4}));
  EXPECT_EQ(*SerializePlan(a), *SerializePlan(b));
  EXPECT_EQ(PlanHash(*SerializePlan(a)), PlanHash(*SerializePlan(b)));
}

// Nothing could keep it from being overwritten while the other reads it.
TEST(CompileTest, APlanBesideTheStepsHasNoneOfTheirVariables) {
  const StepShape shape{1, 2, 1};
  const auto beside = [](const std::string& variable) {
    GraphKit kit("late");
    kit.Are(Role::kForward, Rate::kStep);
    kit.Node("fetch", "look", {kit.Variable(variable, {16, 16}, "[dp=2]{0,1}(B)")}, {}, {{"name", std::string("w")}});
    return std::move(kit.graph());
  };
  Graph trained = TrainingStep(shape);
  trained.losses = {0};
  EXPECT_OK(CompileBoxed({{trained}, {beside("late/w"), 1, /*beside=*/true}}, OptionsFor(shape), Ops()));
  EXPECT_THAT(CompileBoxed({{trained}, {beside("s0/w"), 1, /*beside=*/true}}, OptionsFor(shape), Ops()),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("graph 'train' has variable 's0/w', which a plan beside it has too")));
}

TEST(CompileTest, ThePlanHashIsSha256InHex) {
  EXPECT_EQ(PlanHash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(CompileTest, OperandsSayWhichPartOfTheLogicalTensorTheyAre) {
  ASSERT_OK_AND_ASSIGN(const pb::Program set, ProgramOfAll({1, 2, 1}));
  const pb::Instruction* matmul = Find(set.plans(0), "s0/matmul", 1);
  ASSERT_NE(matmul, nullptr);
  EXPECT_EQ(matmul->kind(), pb::Instruction::COMPUTE);
  EXPECT_THAT(matmul->outputs(0).dims(), ElementsAre(4, 16));
  EXPECT_THAT(matmul->outputs(0).logical_dims(), ElementsAre(8, 16));
  EXPECT_THAT(matmul->outputs(0).start(), ElementsAre(4, 0));
  EXPECT_EQ(matmul->source(), "kit.cc:1");
  const pb::Instruction* read = Find(set.plans(0), "read", 1);
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->kind(), pb::Instruction::READ);
}

TEST(CompileTest, GradientsAreSummedInRankOrder) {
  ASSERT_OK_AND_ASSIGN(const pb::Program set, ProgramOfAll({1, 2, 1}));
  for (int rank = 0; rank < 2; ++rank) {
    const pb::Instruction* copy = Find(set.plans(0), "s0/scatter", rank);
    ASSERT_NE(copy, nullptr);
    EXPECT_EQ(copy->kind(), pb::Instruction::COPY);
    ASSERT_EQ(copy->pieces_size(), 2);
    EXPECT_FALSE(copy->zero_fill());
    EXPECT_FALSE(copy->pieces(0).accumulate());
    EXPECT_TRUE(copy->pieces(1).accumulate());
    EXPECT_EQ(copy->pieces(0).source_offset(), rank * 8 * 16);
    EXPECT_EQ(copy->pieces(0).target_offset(), 0);
    EXPECT_THAT(copy->inputs(copy->pieces(0).input()).start(), ElementsAre(0, 0));
  }
}

// P -> B over p ranks moves 2 (p - 1) T per gradient; activations cross a stage boundary once per micro-batch and
// direction.
TEST(CompileTest, PredictedBytesAreThoseOfTheVolumeTable) {
  const int64_t weight = 16 * 16 * 4, activation = 8 * 16 * 4;
  for (const StepShape& shape : {StepShape{1, 2, 1}, {1, 3, 4}, {2, 1, 3}, {2, 2, 3}, {3, 4, 2}}) {
    ASSERT_OK_AND_ASSIGN(const pb::Program set, ProgramOfAll(shape));
    const int64_t expected =
        shape.stages * 2 * (shape.data - 1) * weight + (shape.stages - 1) * 2 * shape.micro_batches * activation;
    EXPECT_EQ(PredictedBytesMoved(set.plans(0)), expected) << shape.stages << " " << shape.data;
  }
}

TEST(CompileTest, RandomOpsGetTheSeedAndAKeyThatTheirGradientShares) {
  GraphKit kit("g");
  const std::string here = "[]{0}()";
  const ValueId x = kit.Constant("x", {4}, here);
  const ValueId y = kit.Node1("dropout", "drop", {x}, here, {{"rate", 0.5}});
  kit.Node1("dropout", "drop/dx", {y}, here, {{"rate", 0.5}, {"key", std::string("drop")}});
  CompileOptions options = OptionsFor({});
  options.seed = 77;
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CompileBoxed({{kit.graph(), 1}}, options, Ops()));
  const pb::Program program = testing::SpelledOut(set);
  std::map<std::string, int64_t> keys;
  for (const std::string node : {"drop", "drop/dx"}) {
    for (const pb::Attribute& attribute : Find(program.plans(0), node, 0)->attributes()) {
      if (attribute.name() == "key") keys[node] = attribute.i();
      if (attribute.name() == "seed") keys["seed"] = attribute.i();
    }
  }
  EXPECT_EQ(keys["seed"], 77);
  EXPECT_EQ(keys["drop"], static_cast<int64_t>(Fingerprint("drop")));
  EXPECT_EQ(keys["drop/dx"], keys["drop"]);
}

TEST(CompileTest, PlansOfAJobShareVariablesAndOverlayTheRest) {
  const StepShape shape{1, 2, 1};
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet one, PlanOf(shape));
  ASSERT_OK_AND_ASSIGN(
      const pb::PlanSet two,
      CompileBoxed({{TrainingStep(shape), 1}, {TrainingStep(shape, "again"), 1}}, OptionsFor(shape), Ops()));
  EXPECT_EQ(two.plans_size(), 2);
  EXPECT_EQ(two.variables_size(), one.variables_size());
  ASSERT_EQ(one.classes_size(), 1);
  ASSERT_EQ(two.classes_size(), 1);
  EXPECT_EQ(BytesOfZone(two.classes(0), kPrivateZone), BytesOfZone(one.classes(0), kPrivateZone));
  EXPECT_EQ(BytesOfZone(two.classes(0), kSharedZone), BytesOfZone(one.classes(0), kSharedZone));
  EXPECT_GT(BytesOfZone(one.classes(0), kPrivateZone), VariableBytesOfZone(one.classes(0), kPrivateZone));
}

TEST(CompileTest, RanksKnowTheirProcessAndDevice) {
  ASSERT_OK_AND_ASSIGN(const pb::Program set, ProgramOfAll({1, 4, 1}, 2));
  EXPECT_EQ(set.version(), kProgramVersion);
  EXPECT_EQ(set.ranks(3).process(), 1);
  EXPECT_EQ(set.ranks(3).device(), "cpu:3");
}

// Takes one thing at a time away from a good plan; the proof must notice whatever stops it.
TEST(CompileTest, APlanThatLosesATokenIsRefused) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, PlanOf({3, 2, 4}));
  ASSERT_OK(CheckPlanLive(set.plans(0)));
  int tokens = 0;
  for (int r = 0; r < set.plans(0).registers_size(); ++r) {
    if (set.plans(0).registers(r).initially_filled() == 0) continue;
    pb::ClassPlan plan = set.plans(0);
    plan.mutable_registers(r)->set_initially_filled(0);
    EXPECT_THAT(CheckPlanLive(plan), StatusIs(absl::StatusCode::kFailedPrecondition,
                                              AllOf(HasSubstr("plan 'train': deadlock"), HasSubstr("order"))));
    ++tokens;
  }
  EXPECT_EQ(tokens, 3);  // one per stage
}

// Layouts, boxings, micro-batches and overwritten variables in any combination: CompileBoxed checks memory and liveness
// itself.
TEST(CompileTest, PlansOfRandomGraphsAreLiveAndTheirMemoryIsDisjoint) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const testing::RandomJob job = testing::MakeRandomJob(seed);
    const absl::StatusOr<pb::PlanSet> set = CompileBoxed({{job.graph, job.options.micro_batches}}, job.options, Ops());
    // Variables that are assigned from one another may be a circle; nothing else may fail.
    if (set.status().code() == absl::StatusCode::kUnimplemented) continue;
    ASSERT_OK(set);
    const pb::Program program = testing::SpelledOut(*set);
    EXPECT_OK(testing::CheckSpelledOutLive(program.plans(0)));
    ASSERT_OK_AND_ASSIGN(const int64_t planned, PlannedBytesMoved(*set, set->plans(0)));
    EXPECT_EQ(planned, PredictedBytesMoved(program.plans(0)));
  }
}

TEST(CompileTest, PortsThatDoNotMatchTheirRegisterAreRefused) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, PlanOf({1, 2, 1}));
  pb::ClassPlan plan = set.plans(0);
  plan.mutable_registers(0)->set_producer(99);
  EXPECT_THAT(CheckPlanLive(plan), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("actor 99 of")));
  plan = set.plans(0);
  plan.mutable_registers(0)->set_producer(1);
  EXPECT_THAT(CheckPlanLive(plan),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not name it in return")));
  plan = set.plans(0);
  plan.mutable_actors(0)->mutable_outputs(0)->set_register_(99);
  EXPECT_THAT(CheckPlanLive(plan), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("register 99 of")));
}

TEST(PlanTextTest, ShowsHowFarMemoryIsFromTheLeastPossible) {
  // x and y live together, z takes y's place: two tensors of 64 bytes at once, whatever the packing.
  GraphKit kit("g");
  const std::string here = "[]{0}()";
  const ValueId x = kit.Constant("x", {16}, here);
  const ValueId y = kit.Node1("relu", "y", {x}, here);
  const ValueId z = kit.Node1("exp", "z", {y}, here);
  kit.Node1("add", "sum", {x, z}, here);
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CompileBoxed({{kit.graph(), 1}}, OptionsFor({}), Ops()));
  ASSERT_OK_AND_ASSIGN(const std::string text, PlanText(set));
  EXPECT_THAT(text, HasSubstr("plan 'g': private 128 (at least 128), shared 0 (at least 0) bytes"));
  EXPECT_THAT(ProgramText(testing::SpelledOut(set)),
              HasSubstr("plan 'g': registers private 0, shared 0, workspace 128 (at least 128) bytes"));
}

TEST(PlanTextTest, ShowsClassesVariablesRegistersAndInstructionsOnceForAllRanks) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, PlanOf({1, 2, 4}));
  ASSERT_OK_AND_ASSIGN(const std::string text, PlanText(set));
  EXPECT_THAT(
      text,
      AllOf(
          HasSubstr("class 0 ranks 0-1: private "),
          HasSubstr("variable 's0/w' f32[16,16] [dp=2]{0,1}(B) zeros trainable private c0+0"),
          HasSubstr("plan 'train': 5 actors, 5 registers, 4 micro-batches per step, boxing moves 2048 bytes per step"),
          HasSubstr("'s0/sum' on [dp=2]{0,1} a1 -> a2 slots=1 bytes=1024 shared +0"), HasSubstr("filled=1"),
          HasSubstr("boxing 's0/scatter' (f32[16,16] (P) g0@r1) -> (f32[16,16] (S(0)) g0@r2)  # kit.cc:1"),
          HasSubstr("matmul 's0/matmul' (f32[8,16] (S(0)) g0@w+")));
}

TEST(ProgramTextTest, ShowsRanksVariablesRegistersAndInstructions) {
  ASSERT_OK_AND_ASSIGN(const pb::Program program, ProgramOfAll({1, 2, 4}));
  EXPECT_THAT(
      ProgramText(program),
      AllOf(
          HasSubstr("rank 1 process 1 cpu:1: private "), HasSubstr("variable 's0/w' f32[16,16] zeros trainable:"),
          HasSubstr(
              "plan 'train': 10 actors, 10 registers, 4 micro-batches per step, boxing moves 2048 bytes per step"),
          HasSubstr("'s0/sum' a2 -> a4 a5 slots=1 bytes=1024 shared+0"), HasSubstr("filled=1"),
          HasSubstr("boxing 's0/scatter' (f32[16,16]@r2, f32[16,16]@r3) -> (f32[8,16] of [16,16] at [0,0]@r4) pieces=2 "
                    "moves=512  # kit.cc:1"),
          HasSubstr("matmul 's0/matmul' (f32[4,16] of [8,16] at [4,0]@private+")));
}

}  // namespace
}  // namespace oneflow
