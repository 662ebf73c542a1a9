#include "compiler/plan/build_plan.h"

#include <algorithm>

#include "compiler/lower/compile.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"
#include "proto/plan.pb.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using Place = PhysicalOperand::Place;

absl::StatusOr<PhysicalPlan> PlanOf(const Graph& graph, const CompileOptions& options) {
  const Topology topology = JobTopology(options);
  Boxings boxings(topology, options.device);
  const RankClasses classes({&graph}, options.mesh.size());
  OF_ASSIGN_OR_RETURN(const ChainGraph chains, BuildChains(graph, Ops(), topology));
  OF_ASSIGN_OR_RETURN(const VariableTable variables, LayOutVariables({&graph}, Ops(), classes, boxings));
  return BuildPhysicalPlan(
      {graph, Ops(), options.mesh, classes, chains, boxings, variables, options.micro_batches, options.kernel_scratch},
      "g");
}

CompileOptions Ranks(int n, int micro_batches = 1) {
  CompileOptions options = OptionsFor({1, n, micro_batches});
  return options;
}

const PhysicalRegister* FindRegister(const PhysicalPlan& plan, const std::string& name) {
  for (const PhysicalRegister& reg : plan.registers) {
    if (reg.name == name) return &reg;
  }
  return nullptr;
}

std::vector<std::string> NamesOf(const PhysicalPlan& plan, const std::vector<int>& actors) {
  std::vector<std::string> names;
  for (int id : actors) names.push_back(plan.actors[id].name);
  return names;
}

TEST(BuildPlanTest, AStepOnOneDeviceIsOneActorThatComputesBehindOneThatReads) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(TrainingStep({}), OptionsFor({})));
  ASSERT_THAT(plan.actors, SizeIs(2));
  EXPECT_EQ(plan.actors[0].queue, kHostQueue);
  EXPECT_EQ(plan.actors[1].queue, kComputeQueue);
  ASSERT_THAT(plan.registers, SizeIs(1));
  EXPECT_EQ(plan.registers[0].slots, 2) << "the next step is read meanwhile";
}

TEST(BuildPlanTest, AKernelHasTheScratchMemoryOfTheShardThatNeedsMost) {
  // Seven rows on three ranks are 3, 2 and 2; as are the five columns, in 3 and 2, on two.
  GraphKit kit("g");
  kit.Node1("relu", "use", {kit.Constant("x", {7, 5}, "[x=3,y=2]{0,1,2,3,4,5}(S(0),S(1))")},
            "[x=3,y=2]{0,1,2,3,4,5}(S(0),S(1))");
  for (const Shape& needy : {Shape({3, 3}), Shape({3, 2}), Shape({2, 3}), Shape({2, 2})}) {
    CompileOptions options = Ranks(6);
    options.kernel_scratch = {
        {"relu"},
        [&](const OpDef& op, const AttrMap&, absl::Span<const ShardType> inputs, absl::Span<const ShardType> outputs) {
          EXPECT_EQ(op.name, "relu");
          EXPECT_EQ(inputs[0].dims, outputs[0].dims);
          EXPECT_EQ(inputs[0].logical_dims, Shape({7, 5}));
          return outputs[0].dims == needy ? 1000 : outputs[0].dims.count();
        }};
    ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(kit.graph(), options));
    int found = 0;
    for (const PhysicalActor& actor : plan.actors) {
      for (const PhysicalInstruction& instruction : actor.instructions) {
        for (const PhysicalOperand& x : instruction.scratch) {
          EXPECT_EQ(x.part, PhysicalOperand::Part::kKernel);
          EXPECT_EQ(x.num_bytes, 1000) << needy.ToString();
          ++found;
        }
      }
    }
    EXPECT_EQ(found, 1);
  }
}

TEST(BuildPlanTest, AReduceScatterReadsARegisterThatEveryRankHas) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(TrainingStep({1, 2, 1}), OptionsFor({1, 2, 1})));
  const PhysicalRegister* gradient = FindRegister(plan, "s0/dw");
  ASSERT_NE(gradient, nullptr);
  EXPECT_EQ(gradient->placement.ToString(), "[dp=2]{0,1}");
  EXPECT_THAT(NamesOf(plan, gradient->consumers), ElementsAre(HasSubstr("boxing.2 s0/scatter")));
  EXPECT_EQ(gradient->zone, kSharedZone);
  EXPECT_EQ(gradient->slot_bytes, 16 * 16 * 4);
}

TEST(BuildPlanTest, APlanOfManyRanksIsAsLargeAsThatOfTwo) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan two, PlanOf(TrainingStep({3, 2, 4}), OptionsFor({3, 2, 4})));
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan many, PlanOf(TrainingStep({3, 8, 4}), OptionsFor({3, 8, 4})));
  EXPECT_EQ(two.actors.size(), many.actors.size());
  EXPECT_EQ(two.registers.size(), many.registers.size());
  EXPECT_EQ(two.classes.size(), 3u);
  EXPECT_EQ(many.classes.size(), 3u);
}

TEST(BuildPlanTest, ReadersInTheSameProcessNeedNoSharedMemory) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(TrainingStep({1, 2, 1}), OptionsFor({1, 2, 1}, 2)));
  for (const PhysicalRegister& reg : plan.registers) EXPECT_EQ(reg.zone, kPrivateZone) << reg.name;
}

TEST(BuildPlanTest, OneEmptyRegisterThatStartsFilledOrdersUpdatesAfterReads) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(TrainingStep({1, 1, 4}), OptionsFor({1, 1, 4})));
  ASSERT_THAT(plan.registers, SizeIs(3));
  const PhysicalRegister& order = plan.registers[2];
  EXPECT_EQ(order.name, "order s0/w");
  EXPECT_EQ(order.initially_filled, 1);
  EXPECT_EQ(order.slots, 1);
  EXPECT_EQ(order.slot_bytes, 0);
  EXPECT_EQ(plan.actors[order.producer].acts_per_step, 1);
  ASSERT_THAT(order.consumers, SizeIs(1));
  EXPECT_EQ(plan.actors[order.consumers[0]].inputs[1].acts_per_slot, 4);
}

// The host is not waited for but here: it would read what the next step wrote.
TEST(BuildPlanTest, WhatIsFetchedOfAVariableIsReadBeforeItIsOverwritten) {
  GraphKit kit("g");
  const std::string here = "[]{0}()";
  const ValueId w = kit.Variable("w", {4}, here);
  kit.Node("fetch", "show", {w}, {}, {{"name", std::string("w")}});
  kit.Node("assign", "set", {w, kit.Node1("relu", "use", {w}, here)}, {});
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(kit.graph(), Ranks(1)));
  const PhysicalRegister* const order = FindRegister(plan, "order w");
  ASSERT_NE(order, nullptr);
  EXPECT_EQ(order->initially_filled, 1);
  EXPECT_EQ(order->slots, 1);
  const auto is_host = [&](int reader) { return plan.actors[reader].queue == kHostQueue; };
  EXPECT_TRUE(std::any_of(order->consumers.begin(), order->consumers.end(), is_host));
}

TEST(BuildPlanTest, AnAccumulatedGradientIsPublishedAfterTheLastMicroBatch) {
  ASSERT_OK_AND_ASSIGN(const PhysicalPlan plan, PlanOf(TrainingStep({1, 1, 4}), OptionsFor({1, 1, 4})));
  const PhysicalRegister& sum = plan.registers[1];
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
  const PhysicalRegister* reg = FindRegister(plan, "w");
  ASSERT_NE(reg, nullptr);
  EXPECT_EQ(plan.actors[reg->producer].chain, -1);
  EXPECT_THAT(plan.actors[reg->producer].instructions, IsEmpty());
  EXPECT_TRUE(reg->others_only);
  EXPECT_EQ(reg->variable, 0);
  EXPECT_EQ(reg->slot_bytes, 8);
  EXPECT_EQ(reg->slot_stride, 0);
  EXPECT_EQ(reg->zone, kSharedZone);
  EXPECT_EQ(reg->initially_filled, 0);
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CompileBoxed({{kit.graph(), 1}}, Ranks(2), Ops()));
  const pb::Program program = testing::SpelledOut(set);
  for (const pb::Register& spelled : program.plans(0).registers()) {
    if (spelled.name() != "w") continue;
    const int rank = program.plans(0).actors(spelled.producer()).rank();
    ASSERT_EQ(spelled.consumers_size(), 1);
    EXPECT_EQ(program.plans(0).actors(spelled.consumers(0)).rank(), 1 - rank);
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
  const PhysicalRegister* reg = FindRegister(plan, "w");
  ASSERT_NE(reg, nullptr);
  EXPECT_EQ(reg->initially_filled, 1);
  EXPECT_EQ(reg->variable, 0);
  EXPECT_FALSE(reg->others_only);
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CompileBoxed({{kit.graph(), 1}}, Ranks(2), Ops()));
  const pb::Program program = testing::SpelledOut(set);
  // The own rank reads its memory, the other the register; both have to be waited for.
  for (const pb::Register& spelled : program.plans(0).registers()) {
    if (spelled.name() == "w") {
      EXPECT_EQ(spelled.consumers_size(), 2);
    }
  }
  for (const pb::Actor& actor : program.plans(0).actors()) {
    for (const pb::Instruction& instruction : actor.instructions()) {
      if (instruction.node() != "gather") continue;
      ASSERT_EQ(instruction.inputs_size(), 2);
      EXPECT_EQ(instruction.inputs(actor.rank()).register_(), -1);
      EXPECT_GE(instruction.inputs(1 - actor.rank()).register_(), 0);
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

TEST(BuildPlanTest, OneRankHandsAValueToTheHost) {
  GraphKit kit("g");
  const ValueId x = kit.Constant("x", {4}, "[dp=2]{0,1}(B)");
  kit.Node("fetch", "show", {x}, {}, {{"name", std::string("x")}});
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CompileBoxed({{kit.graph(), 1}}, Ranks(2), Ops()));
  const pb::Program program = testing::SpelledOut(set);
  int fetches = 0;
  for (const pb::Actor& actor : program.plans(0).actors()) {
    for (const pb::Instruction& instruction : actor.instructions()) {
      fetches += instruction.kind() == pb::Instruction::FETCH;
    }
  }
  EXPECT_EQ(fetches, 1);
}

// Else steps that are done would wait for reading that runs ahead of them.
TEST(BuildPlanTest, TheHostHandsOutBeforeItReads) {
  GraphKit kit("g");
  const std::string here = "[]{0}()";
  const ValueId images = kit.Node("read_data", "read", {}, {here, here},
                                  {{"dataset", std::string("images")},
                                   {"batch", int64_t{2}},
                                   {"channels", int64_t{1}},
                                   {"height", int64_t{1}},
                                   {"width", int64_t{4}}})[0];
  kit.Node("fetch", "show", {kit.Node1("relu", "x", {images}, here)}, {}, {{"name", std::string("x")}});
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CompileBoxed({{kit.graph(), 1}}, Ranks(1), Ops()));
  std::map<std::string, int> priority;
  for (const pb::ClassActor& actor : set.plans(0).actors()) {
    if (actor.queue() == kHostQueue) priority[actor.instructions(0).op()] = actor.priority();
  }
  ASSERT_EQ(priority.size(), 2);
  EXPECT_GT(priority["fetch"], priority["read_data"]);
}

// 'late' reads x alone; that the sum is there it hears from an empty register.
TEST(BuildPlanTest, WhatComesAfterAValueThatItDoesNotReadWaitsForAnEmptyRegister) {
  GraphKit kit("g");
  const std::string split = "[dp=2]{0,1}(S(0))", whole = "[dp=2]{0,1}(B)";
  kit.Are(Role::kForward, Rate::kMicroBatch);
  const ValueId x = kit.Node1("exp", "x", {kit.Constant("data", {4, 4}, split)}, split);
  kit.Are(Role::kInputGradient, Rate::kMicroBatch);
  const ValueId sum = kit.Box("sum", kit.Node1("relu", "gradient", {x}, split), whole);
  kit.Are(Role::kRecompute, Rate::kMicroBatch);
  const ValueId late = kit.Node1("exp", "late", {x}, split);
  kit.Box("use", late, whole);
  const auto order = [&](ValueId after) -> std::optional<PhysicalRegister> {
    kit.graph().node(kit.graph().value(late).producer).after = {after};
    const absl::StatusOr<PhysicalPlan> plan = PlanOf(kit.graph(), Ranks(2, 4));
    EXPECT_OK(plan.status());
    if (!plan.ok()) return std::nullopt;
    const PhysicalRegister* const found =
        FindRegister(*plan, absl::StrCat("order ", kit.graph().node(kit.graph().value(after).producer).name));
    if (found == nullptr) return std::nullopt;
    EXPECT_THAT(NamesOf(*plan, found->consumers), ElementsAre(HasSubstr("late")));
    return *found;
  };
  const std::optional<PhysicalRegister> reg = order(sum);
  ASSERT_TRUE(reg.has_value());
  EXPECT_EQ(reg->slot_bytes, 0);
  EXPECT_EQ(reg->initially_filled, 0);
  EXPECT_FALSE(reg->per_step);
  EXPECT_FALSE(order(x).has_value()) << "it reads what that chain makes";
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
