#include "compiler/plan/memory_check.h"

#include "absl/strings/match.h"
#include "compiler/plan/build_plan.h"
#include "compiler/plan/memory.h"
#include "oneflow_core/zones.h"
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
  explicit Planned(const StepShape& shape)
      : graph(TrainingStep(shape)),
        options(OptionsFor(shape)),
        topology(JobTopology(options)),
        boxings(topology, options.device),
        classes({&graph}, options.mesh.size()),
        chains(*BuildChains(graph, Ops(), topology)),
        variables(*LayOutVariables({&graph}, Ops(), classes, boxings)),
        input{graph, Ops(), options.mesh, classes, chains, boxings, variables, shape.micro_batches, MatmulScratch()},
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

}  // namespace
}  // namespace oneflow
