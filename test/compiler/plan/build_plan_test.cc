#include "compiler/plan/build_plan.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using ::testing::ElementsAre;
using testing::GraphKit;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ops;
using testing::OptionsFor;
using ::testing::SizeIs;
using testing::StatusIs;
using testing::StepShape;
using testing::TrainingStep;
using Place = PhysicalOperand::Place;

absl::StatusOr<PhysicalPlan> PlanOf(const Graph& graph, const CompileOptions& options) {
  const Topology topology = JobTopology(options);
  OF_ASSIGN_OR_RETURN(const ChainGraph chains, BuildChains(graph, Ops()));
  OF_ASSIGN_OR_RETURN(const Boxings boxings, AnalyseBoxings(graph, topology));
  OF_ASSIGN_OR_RETURN(const VariableTable variables, LayOutVariables({&graph}, {boxings}, topology));
  return BuildPhysicalPlan({graph, Ops(), options.mesh, topology, chains, boxings, variables, options.micro_batches},
                           "g");
}

CompileOptions Ranks(int n, int micro_batches = 1) {
  CompileOptions options = OptionsFor({1, n, micro_batches});
  return options;
}

const PhysicalRegister* FindRegister(const PhysicalPlan& plan, const std::string& name, int rank) {
  for (const PhysicalRegister& reg : plan.registers) {
    if (reg.name == name && plan.actors[reg.producer].rank == rank) return &reg;
  }
  return nullptr;
}

std::set<int> RanksOf(const PhysicalPlan& plan, const std::vector<int>& actors) {
  std::set<int> ranks;
  for (int id : actors) ranks.insert(plan.actors[id].rank);
  return ranks;
}

TEST(BuildPlanTest, AStepOnOneDeviceIsOneActorWithoutRegisters) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(TrainingStep({}), OptionsFor({})));
  EXPECT_THAT(plan.actors, SizeIs(1));
  EXPECT_THAT(plan.registers, IsEmpty());
}

TEST(BuildPlanTest, AReduceScatterReadsTheGradientsOfAllRanks) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(TrainingStep({1, 2, 1}), OptionsFor({1, 2, 1})));
  for (int rank = 0; rank < 2; ++rank) {
    const PhysicalRegister* gradient = FindRegister(plan, "s0/dw", rank);
    ASSERT_NE(gradient, nullptr);
    EXPECT_THAT(RanksOf(plan, gradient->consumers), ElementsAre(0, 1));
    EXPECT_EQ(gradient->zone, Zone::kShared);
    EXPECT_EQ(gradient->slot_bytes, 16 * 16 * 4);
  }
}

TEST(BuildPlanTest, ReadersInTheSameProcessNeedNoSharedMemory) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(TrainingStep({1, 2, 1}), OptionsFor({1, 2, 1}, 2)));
  for (const PhysicalRegister& reg : plan.registers) EXPECT_EQ(reg.zone, Zone::kPrivate) << reg.name;
}

TEST(BuildPlanTest, OneEmptyRegisterThatStartsFilledOrdersUpdatesAfterReads) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(TrainingStep({1, 1, 4}), OptionsFor({1, 1, 4})));
  ASSERT_THAT(plan.registers, SizeIs(2));
  const PhysicalRegister& order = plan.registers[1];
  EXPECT_EQ(order.name, "order s0/w");
  EXPECT_EQ(order.initially_filled, 1);
  EXPECT_EQ(order.slots, 1);
  EXPECT_EQ(order.slot_bytes, 0);
  EXPECT_EQ(plan.actors[order.producer].acts_per_step, 1);
  ASSERT_THAT(order.consumers, SizeIs(1));
  EXPECT_EQ(plan.actors[order.consumers[0]].inputs[0].acts_per_slot, 4);
}

TEST(BuildPlanTest, AnAccumulatedGradientIsPublishedAfterTheLastMicroBatch) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(TrainingStep({1, 1, 4}), OptionsFor({1, 1, 4})));
  const PhysicalRegister& sum = plan.registers[0];
  EXPECT_EQ(sum.name, "s0/sum");
  const PhysicalActor& producer = plan.actors[sum.producer];
  EXPECT_EQ(producer.acts_per_step, 4);
  ASSERT_THAT(producer.outputs, SizeIs(1));
  EXPECT_EQ(producer.outputs[0].acts_per_slot, 4);
}

TEST(BuildPlanTest, AnAccumulatedValueThatNobodyReadsIsPinned) {
  GraphKit kit("g");
  kit.Are(Role::kForward, Rate::kMicroBatch);
  kit.Node1("accumulate", "sum", {kit.Constant("x", {4}, "[]{0}()")}, "[]{0}()");
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(kit.graph(), OptionsFor({1, 1, 2})));
  EXPECT_EQ(plan.actors[0].instructions[1].outputs[0].place, Place::kPinned);
}

TEST(BuildPlanTest, AConstantVariableIsPublishedToTheOtherRanksOnly) {
  GraphKit kit("g");
  const std::string split = "[dp=2]{0,1}(S(0))", whole = "[dp=2]{0,1}(B)";
  const ValueId w = kit.Variable("w", {4}, split);
  kit.Node1("relu", "use", {kit.Box("gather", w, whole)}, whole);
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(kit.graph(), Ranks(2)));
  for (int rank = 0; rank < 2; ++rank) {
    const PhysicalRegister* reg = FindRegister(plan, "w", rank);
    ASSERT_NE(reg, nullptr);
    EXPECT_EQ(plan.actors[reg->producer].chain, -1);
    EXPECT_THAT(plan.actors[reg->producer].instructions, IsEmpty());
    EXPECT_THAT(RanksOf(plan, reg->consumers), ElementsAre(1 - rank));
    EXPECT_EQ(reg->variable, 0);
    EXPECT_EQ(reg->slot_bytes, 8);
    EXPECT_EQ(reg->slot_stride, 0);
    EXPECT_EQ(reg->zone, Zone::kShared);
    EXPECT_EQ(reg->initially_filled, 0);
  }
}

TEST(BuildPlanTest, AVariableThatIsOverwrittenAndReadFromAfarIsItsOwnRegister) {
  GraphKit kit("g");
  const std::string split = "[dp=2]{0,1}(S(0))", whole = "[dp=2]{0,1}(B)";
  const ValueId w = kit.Variable("w", {4}, split);
  const ValueId y = kit.Node1("relu", "use", {kit.Box("gather", w, whole)}, whole);
  const ValueId back = kit.Box("back", y, split);
  kit.Node("assign", "set", {w, back}, {});
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(kit.graph(), Ranks(2)));
  const PhysicalRegister* reg = FindRegister(plan, "w", 0);
  ASSERT_NE(reg, nullptr);
  EXPECT_EQ(reg->initially_filled, 1);
  EXPECT_EQ(reg->variable, 0);
  EXPECT_THAT(RanksOf(plan, reg->consumers), ElementsAre(0, 1));
  // The own rank reads its memory, the other the register.
  for (const PhysicalActor& actor : plan.actors) {
    for (const PhysicalInstruction& instruction : actor.instructions) {
      if (kit.graph().node(instruction.node).name != "gather") continue;
      for (const PhysicalOperand& x : instruction.inputs) {
        EXPECT_EQ(x.place, x.index == actor.rank ? Place::kVariable : Place::kRegister);
      }
    }
  }
}

TEST(BuildPlanTest, AVariableOverwrittenInEveryMicroBatchMayNotBeReadElsewhere) {
  GraphKit kit("g");
  const std::string here = "[]{0}()", there = "[]{1}()";
  kit.Are(Role::kForward, Rate::kMicroBatch);
  const ValueId w = kit.Variable("w", {4}, here);
  kit.Node1("relu", "use", {kit.Box("send", w, there)}, there);
  kit.Node("assign", "set", {w, kit.Constant("x", {4}, here)}, {});
  EXPECT_THAT(PlanOf(kit.graph(), Ranks(2, 3)),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("in each of 3 micro-batches")));
}

TEST(BuildPlanTest, ACopyThatNobodyReadsIsNotMade) {
  // Both ranks hold y after `gather`, but only rank 2 reads it, from the nearest of them.
  GraphKit kit("g");
  const std::string split = "[dp=2]{0,1}(S(0))", whole = "[dp=2]{0,1}(B)", far = "[]{2}()";
  const ValueId x = kit.Constant("x", {4}, split);
  kit.Node1("relu", "use", {kit.Box("send", kit.Box("gather", x, whole), far)}, far);
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(kit.graph(), Ranks(3)));
  int gathers = 0;
  for (const PhysicalActor& actor : plan.actors) gathers += absl::StrContains(actor.name, "gather") ? 1 : 0;
  EXPECT_EQ(gathers, 1);
}

TEST(BuildPlanTest, OneRankHandsAValueToTheHost) {
  GraphKit kit("g");
  const ValueId x = kit.Constant("x", {4}, "[dp=2]{0,1}(B)");
  kit.Node("fetch", "show", {x}, {}, {{"name", std::string("x")}});
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(kit.graph(), Ranks(2)));
  int fetches = 0;
  for (const PhysicalActor& actor : plan.actors) {
    for (const PhysicalInstruction& instruction : actor.instructions) {
      fetches += kit.graph().node(instruction.node).op == "fetch" ? 1 : 0;
    }
  }
  EXPECT_EQ(fetches, 1);
}

TEST(BuildPlanTest, PortsAndRegistersNameEachOther) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(TrainingStep({3, 2, 4}), OptionsFor({3, 2, 4})));
  for (size_t r = 0; r < plan.registers.size(); ++r) {
    const PhysicalRegister& reg = plan.registers[r];
    EXPECT_TRUE(std::is_sorted(reg.consumers.begin(), reg.consumers.end()));
    const auto names = [&](const std::vector<PhysicalPort>& ports) {
      return std::count_if(ports.begin(), ports.end(),
                           [&](const PhysicalPort& p) { return p.reg == static_cast<int>(r); });
    };
    EXPECT_EQ(names(plan.actors[reg.producer].outputs), 1);
    for (int id : reg.consumers) EXPECT_EQ(names(plan.actors[id].inputs), 1);
  }
}

}  // namespace
}  // namespace oneflow
