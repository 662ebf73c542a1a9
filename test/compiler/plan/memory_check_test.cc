#include "compiler/plan/memory_check.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "compiler/plan/build_plan.h"
#include "compiler/plan/direct_order.h"
#include "compiler/plan/memory.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/tiers.h"
#include "oneflow_core/zones.h"
#include "test/compiler/passes/testing.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using Place = PhysicalOperand::Place;

// As many bytes as the first result has.
KernelScratch MatmulScratch() {
  return {{"matmul"},
          [](const OpDef&, const AttrMap&, absl::Span<const ShardType>, absl::Span<const ShardType> outputs) {
            return outputs[0].dims.count() * 4;
          }};
}

// A data-parallel training step with everything it borrows, so that a test may damage the plan.
struct Planned {
  explicit Planned(const StepShape& shape) : Planned(TrainingStep(shape), OptionsFor(shape)) {}
  Planned(Graph of, CompileOptions with)
      : graph(std::move(of)),
        options(std::move(with)),
        topology(JobTopology(options)),
        boxings(topology, options.device),
        classes({&graph}, options.mesh.size()),
        chains(*BuildChains(graph, Ops(), topology)),
        variables(*LayOutVariables({&graph}, Ops(), classes, boxings)),
        input{graph, Ops(), options.mesh, classes, chains, boxings, variables, options.micro_batches, MatmulScratch()},
        plan(*BuildPhysicalPlan(input, "train")) {
    EXPECT_OK(AssignMemory(input, plan));
  }
  Planned(const Planned&) = delete;

  absl::Status Check() const { return CheckMemory(input, plan); }
  // The first operand in the workspace (as input or output) of the node.
  PhysicalOperand& Workspace(const std::string& node, bool output) {
    for (PhysicalActor& actor : plan.actors) {
      for (PhysicalInstruction& instruction : actor.instructions) {
        if (graph.node(instruction.node).name != node) continue;
        for (PhysicalOperand& x : output ? instruction.outputs : instruction.inputs) {
          if (x.place == Place::kWorkspace) return x;
        }
      }
    }
    ADD_FAILURE() << node;
    return plan.actors[0].instructions[0].outputs[0];
  }

  Graph graph;
  CompileOptions options;
  Topology topology;
  Boxings boxings;
  RankClasses classes;
  ChainGraph chains;
  VariableTable variables;
  PlanInput input;
  PhysicalPlan plan;
};

TEST(MemoryCheckTest, PlansOfSeveralShapesPass) {
  for (const StepShape& shape : {StepShape{1, 1, 1}, {1, 3, 1}, {1, 2, 4}, {2, 1, 4}, {3, 2, 5}}) {
    EXPECT_OK(Planned(shape).Check()) << shape.stages << " " << shape.data << " " << shape.micro_batches;
  }
}

TEST(MemoryCheckTest, TwoRegistersAtOnePlaceAreFound) {
  Planned planned({1, 2, 1});
  PhysicalRegister* first = nullptr;
  for (PhysicalRegister& reg : planned.plan.registers) {
    if (reg.slot_bytes == 0 || reg.variable >= 0) continue;
    if (first != nullptr && reg.zone == first->zone && reg.placement == first->placement) {
      first->offset = reg.offset = 0;
      break;
    }
    if (first == nullptr) first = &reg;
  }
  EXPECT_THAT(planned.Check(), StatusIs(absl::StatusCode::kInternal, HasSubstr("overlap")));
}

TEST(MemoryCheckTest, OneSlotMoreThanThereIsRoomForIsFound) {
  Planned planned({1, 2, 1});
  for (PhysicalRegister& reg : planned.plan.registers) reg.slots += reg.slot_bytes > 0 && reg.variable < 0 ? 1 : 0;
  EXPECT_FALSE(planned.Check().ok());
}

TEST(MemoryCheckTest, AnInstructionThatReadsWhereAnotherValueLiesIsFound) {
  Planned planned({1, 1, 1});
  PhysicalOperand& read = planned.Workspace("s0/dw", false);
  read.offset += kAlignment;
  EXPECT_THAT(planned.Check(), StatusIs(absl::StatusCode::kInternal, HasSubstr("reads 'flat'")));
}

TEST(MemoryCheckTest, AnOutputOverALivingValueIsFound) {
  Planned planned({1, 1, 1});
  const int64_t flat = planned.Workspace("flat", true).offset;
  planned.Workspace("s0/matmul", true).offset = flat;  // dw reads `flat` later
  EXPECT_FALSE(planned.Check().ok());
}

TEST(MemoryCheckTest, ScratchMemoryOverAnOperandIsFound) {
  Planned planned({1, 1, 1});
  int found = 0;
  for (PhysicalActor& actor : planned.plan.actors) {
    for (PhysicalInstruction& instruction : actor.instructions) {
      if (instruction.scratch.empty() || instruction.outputs[0].place != Place::kWorkspace) continue;
      EXPECT_EQ(instruction.scratch[0].num_bytes, instruction.outputs[0].num_bytes);
      instruction.scratch[0].offset = instruction.outputs[0].offset;
      EXPECT_THAT(planned.Check(), StatusIs(absl::StatusCode::kInternal, HasSubstr("overlap")));
      ++found;
    }
  }
  EXPECT_GT(found, 0);
}

TEST(MemoryCheckTest, AWorkspaceOnARegisterInUseIsFound) {
  Planned planned({2, 1, 4});
  int found = 0;
  for (PhysicalRegister& reg : planned.plan.registers) {
    if (reg.slot_bytes == 0 || reg.variable >= 0 || reg.zone != kPrivateZone) continue;
    const int64_t before = reg.offset;
    for (const PhysicalActor& actor : planned.plan.actors) {
      for (const PhysicalInstruction& instruction : actor.instructions) {
        for (const PhysicalOperand& x : instruction.outputs) {
          if (x.place != Place::kWorkspace || actor.placement != reg.placement) continue;
          reg.offset = x.offset;
          const absl::Status status = planned.Check();
          found += !status.ok() && absl::StrContains(status.message(), "overlap at tick");
        }
      }
    }
    reg.offset = before;
  }
  EXPECT_GT(found, 0);
  EXPECT_OK(planned.Check());
}

TEST(MemoryCheckTest, ARegionThatIsTooSmallIsFound) {
  Planned planned({1, 2, 1});
  for (ClassMemory& memory : planned.plan.classes) memory.bytes[0] -= kAlignment;
  EXPECT_THAT(planned.Check(), StatusIs(absl::StatusCode::kInternal, HasSubstr("lies outside")));
}

TEST(MemoryCheckTest, AGuardThatIsNotItsVariableIsFound) {
  Planned planned({1, 2, 1});
  PhysicalRegister guard = planned.plan.registers[0];
  guard.variable = 0;
  guard.slot_bytes += kAlignment;
  planned.plan.registers.push_back(guard);
  EXPECT_THAT(planned.Check(), StatusIs(absl::StatusCode::kInternal, HasSubstr("is not variable 's0/w'")));
}

// Six layers, each with two moments on disk.
Planned WithLoads(int prefetch) {
  GraphBuilder b(Ops(), "train");
  Tensor x = testing::ReadSamples(b, 8).rows;
  for (int i = 0; i < 6; ++i) x = MatMul(Tanh(x), testing::Weight(b, absl::StrCat("w", i), {16, 16}));
  const Tensor loss = ReduceMean(Mul(x, x));
  b.SetLoss(loss);
  CompileOptions options = testing::Options({});
  options.optimizer.rule = "adamw";
  options.offload = {{.tier = FindTier("disk"), .prefetch = prefetch, .unit_bytes = 1}};
  VariableDists variables;
  return Planned(*RunPasses(*b.Finish(), options, Ops(), variables), options);
}

std::vector<int> Loads(const Planned& planned) {
  const DirectOrder order(planned.input, planned.plan);
  return order.registers();
}

// Of six loads, in three slots.
TEST(MemoryCheckTest, LoadsThatTakeTurnsShareTheirPlaces) {
  const Planned planned = WithLoads(2);
  const DirectOrder order(planned.input, planned.plan);
  ASSERT_EQ(order.registers().size(), 6u);
  std::set<int64_t> places;
  for (size_t j = 0; j < 6; ++j) {
    places.insert(planned.plan.registers[order.registers()[j]].offset);
    for (size_t i = 0; i < j; ++i) {
      EXPECT_EQ(order.TakeTurns(order.registers()[i], order.registers()[j]), i + 3 == j) << i << " " << j;
    }
  }
  EXPECT_EQ(places.size(), 3u);
  EXPECT_OK(planned.Check());
}

TEST(MemoryCheckTest, LoadsAtOnePlaceThatDoNotTakeTurnsAreFound) {
  Planned planned = WithLoads(2);
  const std::vector<int> loads = Loads(planned);
  planned.plan.registers[loads[1]].offset = planned.plan.registers[loads[0]].offset;
  EXPECT_THAT(planned.Check(), StatusIs(absl::StatusCode::kInternal, HasSubstr("do not take turns")));
}

// One slot fewer waits than there are: what was there might still be written to disk.
TEST(MemoryCheckTest, LoadsThatDoNotWaitForWhatWasThereAreFound) {
  Planned planned = WithLoads(2);
  const int load = Loads(planned)[3];
  PhysicalActor& actor = planned.plan.actors[planned.plan.registers[load].producer];
  for (const PhysicalPort& port : std::vector<PhysicalPort>(actor.inputs)) {
    PhysicalRegister& reg = planned.plan.registers[port.reg];
    if (reg.slot_bytes > 0 || QueueKindOf(planned.plan.actors[reg.producer].queue).name != std::string("write"))
      continue;
    reg.consumers.erase(std::find(reg.consumers.begin(), reg.consumers.end(), planned.plan.registers[load].producer));
    actor.inputs.erase(std::find_if(actor.inputs.begin(), actor.inputs.end(),
                                    [&](const PhysicalPort& other) { return other.reg == port.reg; }));
  }
  EXPECT_THAT(planned.Check(), StatusIs(absl::StatusCode::kInternal, HasSubstr("do not take turns")));
}

}  // namespace
}  // namespace oneflow
