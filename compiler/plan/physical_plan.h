// The physical plan of one graph before it is written down: actors per rank, registers between them, instructions with
// operands at concrete places. The same facts as proto/plan.proto, plus which logical value each operand is, for the
// checks.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/boxings.h"
#include "compiler/plan/chains.h"
#include "compiler/plan/variables.h"
#include "oneflow_core/graph.h"
#include "sbp/topology.h"

namespace oneflow {

struct PhysicalOperand {
  // What kind of memory holds it. Workspace is the rank's scratch area, valid within one act; pinned memory is like it,
  // but no other operand ever uses it.
  enum class Place : uint8_t { kRegister, kVariable, kWorkspace, kPinned };

  // What of the value it is: a shard of it, or what a boxing to it has packed to send, or received and not unpacked.
  enum class Part : uint8_t { kShard, kPacked, kReceived };

  ValueId value = -1;
  Part part = Part::kShard;
  int index = 0;  // which shard: position in the placement of the value's dist
  Place place = Place::kWorkspace;
  int reg = -1;                // kRegister
  Zone zone = Zone::kPrivate;  // otherwise
  int64_t offset = 0;          // from the start of the slot, or of the zone
  int64_t num_bytes = 0;

  // What tells it from other contents of the same memory.
  std::pair<ValueId, Part> content() const { return {value, part}; }
};

struct PhysicalInstruction {
  // A boxing by sending is up to three instructions (BoxingShare).
  enum class Role : uint8_t { kNode, kPack, kCall, kUnpack };

  NodeId node = -1;
  Role role = Role::kNode;
  std::vector<PhysicalOperand> inputs;  // of a boxing: one per source that it reads, as in BoxingUse::sources
  std::vector<PhysicalOperand> outputs;
};

struct PhysicalPort {
  int reg = -1;
  int acts_per_slot = 1;
};

struct PhysicalActor {
  int chain = -1;  // -1: publishes variables and executes nothing
  int rank = 0;
  int index = 0;  // of the rank in the chain's placement; -1: it only sends
  std::string name;
  int acts_per_step = 1;
  int priority = 0;
  std::vector<PhysicalPort> inputs;
  std::vector<PhysicalPort> outputs;
  std::vector<PhysicalInstruction> instructions;
};

struct PhysicalRegister {
  int producer = -1;
  std::vector<int> consumers;  // actor ids, ascending
  bool per_step = true;        // filled once per step, else once per micro-batch
  int slots = 1;
  int initially_filled = 0;
  Zone zone = Zone::kPrivate;
  int64_t offset = 0;
  int64_t slot_bytes = 0;
  int64_t slot_stride = 0;
  int variable = -1;  // index into the variable table: the register is that shard's memory
  std::string name;
};

// What one rank holds for this plan, in bytes.
struct RankMemory {
  std::array<int64_t, kNumZones> registers{};
  int64_t workspace_offset = 0;  // in the private zone
  int64_t workspace = 0;         // shared by all acts of the rank
  int64_t workspace_bound = 0;   // no packing can need less: the most that is alive at once
  int64_t pinned = 0;
  std::array<int64_t, kNumZones> end{};  // the plan needs zones of this size, variables included
};

struct PhysicalPlan {
  std::string name;
  int micro_batches = 1;
  std::vector<PhysicalActor> actors;  // by chain, then by rank
  std::vector<PhysicalRegister> registers;
  std::vector<RankMemory> ranks;
  // Per rank, the acts of one step that hold calls, in the order in which they are launched: actor ids, one per act.
  std::vector<std::vector<int>> call_orders;
};

// What planning reads; borrowed.
struct PlanInput {
  const Graph& graph;
  const OpRegistry& ops;
  const Mesh& mesh;
  const Topology& topology;
  const ChainGraph& chains;
  const Boxings& boxings;
  const VariableTable& variables;
  int micro_batches = 1;
};

}  // namespace oneflow
