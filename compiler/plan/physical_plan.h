// The physical plan of one graph before it is written down: actors, registers between them, instructions with operands at
// concrete places. The same facts as proto/plan.proto, plus which logical value each operand is, for the checks.
//
// An actor here stands for its instances on all ranks of its placement, a register for those of its producer. Sizes are those of the
// largest shard; offsets within a slot or an act hold on all ranks, offsets of slots and areas per class of ranks.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/boxings.h"
#include "compiler/plan/chains.h"
#include "compiler/plan/rank_classes.h"
#include "compiler/plan/variables.h"
#include "compiler/plan_mesh.h"
#include "oneflow_core/graph.h"
#include "sbp/topology.h"

namespace oneflow {

struct PhysicalOperand {
  // What kind of memory holds it. Workspace is a rank's scratch area, valid within one act; pinned memory belongs to the actor and
  // outlives its acts.
  enum class Place : uint8_t { kRegister, kVariable, kWorkspace, kPinned };

  // What of the value it is: a shard of it, or what a boxing to it has packed to send, or received and not unpacked.
  enum class Part : uint8_t { kShard, kPacked, kReceived };

  ValueId value = -1;
  Part part = Part::kShard;
  Place place = Place::kWorkspace;
  int index = -1;      // kRegister, kVariable: which
  int64_t offset = 0;  // from the start of the slot, of the workspace, of the actor's pinned memory
  int64_t num_bytes = 0;

  // What tells it from other contents of the same memory.
  std::pair<ValueId, Part> content() const { return {value, part}; }
};

struct PhysicalInstruction {
  NodeId node = -1;
  std::vector<PhysicalOperand> inputs;  // of a boxing one, which stands for the shards of all sources that a rank reads
  std::vector<PhysicalOperand> outputs;
  std::vector<PhysicalOperand> scratch;  // of a boxing by sending: kPacked, kReceived, if any rank needs them
};

struct PhysicalPort {
  int reg = -1;
  int acts_per_slot = 1;
};

struct PhysicalActor {
  int chain = -1;                    // -1: publishes variables and executes nothing
  Placement placement;               // of a boxing its destinations
  std::optional<Placement> senders;  // of a boxing by sending: its sources, which act too
  std::string name;
  int acts_per_step = 1;
  int priority = 0;
  std::vector<PhysicalPort> inputs;
  std::vector<PhysicalPort> outputs;
  std::vector<PhysicalInstruction> instructions;
  int64_t workspace = 0;                // bytes of one act
  int64_t workspace_bound = 0;          // no packing can need less: the most that is alive at once
  int64_t pinned = 0;                   // bytes
  std::vector<int64_t> pinned_offsets;  // in the private zone, by class; -1 where it has no instance
};

struct PhysicalRegister {
  int producer = -1;
  std::vector<int> consumers;  // actors, ascending
  Placement placement;         // whose ranks have it
  bool per_step = true;        // filled once per step, else once per micro-batch
  int slots = 1;
  int initially_filled = 0;
  Zone zone = Zone::kPrivate;
  int64_t slot_bytes = 0;
  int64_t slot_stride = 0;
  int variable = -1;             // index into the variable table: the register is that variable's memory
  bool others_only = false;      // only consumers on other ranks than the producer's wait for it
  std::vector<int64_t> offsets;  // by class; -1 where it has no instance, and all -1 for a variable's
  std::string name;
};

// What a rank of one class holds for this plan, in bytes.
struct ClassMemory {
  std::array<int64_t, kNumZones> registers{};
  int64_t workspace_offset = 0;  // in the private zone
  int64_t workspace = 0;         // shared by all acts of the rank
  int64_t workspace_bound = 0;
  int64_t pinned = 0;
  std::array<int64_t, kNumZones> end{};  // the plan needs zones of this size, variables included
};

struct PhysicalPlan {
  std::string name;
  int micro_batches = 1;
  std::vector<PhysicalActor> actors;  // index of a chain's actor: the chain; publishers behind
  std::vector<PhysicalRegister> registers;
  std::vector<ClassMemory> classes;
};

// What planning reads; borrowed but for the mesh.
struct PlanInput {
  const Graph& graph;
  const OpRegistry& ops;
  PlanMesh mesh;
  const RankClasses& classes;
  const ChainGraph& chains;
  Boxings& boxings;
  const VariableTable& variables;
  int micro_batches = 1;
};

}  // namespace oneflow
