// The physical plan of one graph before it is written down: actors, registers between them, instructions with operands
// at concrete places. The same facts as proto/plan.proto, plus which logical value each operand is, for the checks.
//
// An actor here stands for its instances on all ranks of its placement, a register for those of its producer. Sizes are
// those of the largest shard; offsets hold on all ranks, from the start of the plan's region in their zone (memory.h).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernel_scratch.h"
#include "compiler/plan/boxings.h"
#include "compiler/plan/chains.h"
#include "compiler/plan/rank_classes.h"
#include "compiler/plan/variables.h"
#include "compiler/plan_mesh.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"
#include "sbp/topology.h"

namespace oneflow {

struct PhysicalOperand {
  // The kind of memory. The workspace is scratch memory of a rank's queue, valid within one act; pinned memory belongs
  // to the actor and outlives its acts.
  enum class Place : uint8_t { kRegister, kVariable, kWorkspace, kPinned };

  // The content: a shard of the value; packed data that a boxing sends; received data that it has not unpacked; scratch
  // memory of the kernel that computes the value; its slots on the way from or to the host, kept from act to act.
  enum class Part : uint8_t { kShard, kPacked, kReceived, kKernel, kTransfer };

  ValueId value = -1;
  Part part = Part::kShard;
  Place place = Place::kWorkspace;
  int index = -1;      // kRegister, kVariable: which
  int64_t offset = 0;  // from the start of the slot, of the plan's region, of the actor's pinned memory
  int64_t num_bytes = 0;

  // Distinguishes it from other contents of the same memory.
  std::pair<ValueId, Part> content() const { return {value, part}; }
};

struct PhysicalInstruction {
  NodeId node = -1;
  std::vector<PhysicalOperand> inputs;  // a boxing has one, which stands for the shards of all sources of a rank
  std::vector<PhysicalOperand> outputs;
  std::vector<PhysicalOperand> scratch;  // all other parts, if any rank needs them
  int64_t landed = 0;                    // of a boxing: bytes that a rank receives from other hosts per slot
  // The first and the last of the boxings in the actor that are called together with this one
  // (compiler/plan/call_groups.h). All pack, then all are called, then all unpack: their memory is in use from the
  // first to the last. -1: it is by itself.
  int group_begin = -1;
  int group_end = -1;
};

// The bytes of what an instruction of the host, or of the disk, brings there from the device and back; each rounded by
// `round`. Of what is copied from or to the disk that is one end.
template <typename Round>
int64_t TransferBytes(OpKind kind, const PhysicalInstruction& instruction, const Round& round) {
  if (kind == OpKind::kLoad) return round(instruction.outputs[0].num_bytes);
  if (kind == OpKind::kStore) return round(instruction.inputs.back().num_bytes);
  int64_t num_bytes = 0;
  for (const PhysicalOperand& x : instruction.inputs) num_bytes += round(x.num_bytes);
  for (const PhysicalOperand& x : instruction.outputs) num_bytes += round(x.num_bytes);
  return num_bytes;
}

struct PhysicalPort {
  int reg = -1;
  int acts_per_slot = 1;
};

struct PhysicalActor {
  int chain = -1;                    // -1: publishes variables and executes nothing
  Placement placement;               // of a boxing: its destinations
  std::optional<Placement> senders;  // of a boxing by sending: its sources, which act too
  std::string name;
  int acts_per_step = 1;
  int priority = 0;
  Queue queue = kComputeQueue;
  std::vector<PhysicalPort> inputs;
  std::vector<PhysicalPort> outputs;
  std::vector<PhysicalInstruction> instructions;
  int64_t pinned = 0;  // bytes: memory that its acts keep, and the landings of registers on other hosts
  int64_t pinned_offset = 0;
};

// The instructions of an actor during which the memory of one of them is in use.
inline int BeginOfUse(const PhysicalActor& actor, int instruction) {
  const int begin = actor.instructions[instruction].group_begin;
  return begin < 0 ? instruction : begin;
}
inline int EndOfUse(const PhysicalActor& actor, int instruction) {
  const int end = actor.instructions[instruction].group_end;
  return end < 0 ? instruction : end;
}

struct PhysicalRegister {
  int producer = -1;
  std::vector<int> consumers;  // actors, ascending
  Placement placement;         // of the ranks that have it
  bool per_step = true;        // filled once per step, else once per micro-batch
  int slots = 1;
  int initially_filled = 0;
  Zone zone = kPrivateZone;
  int64_t slot_bytes = 0;
  int64_t slot_stride = 0;
  ValueId first_value = -1;  // the value in its slots at the beginning; -1: none
  int variable = -1;         // index into the variable table: the register is that variable's memory
  bool others_only = false;  // only consumers on other ranks than the producer's wait for it
  int64_t offset = 0;        // of slot 0; not for a variable's
  std::string name;
};

// Acts of one step on a queue of a class' ranks that begin in this order: actors, once per act.
struct PhysicalOrder {
  int rank_class = 0;
  Queue queue = kComputeQueue;
  std::vector<int> actors;
};

struct LargestUse {
  MemoryUse use = MemoryUse::kWeights;
  std::string name;  // of the variable, or of the node that makes the value
  int64_t num_bytes = 0;
};

// The memory of a rank of one class for this plan, in bytes.
struct ClassMemory {
  std::array<int64_t, kNumZones> bytes{};  // of the plan's region, which lies behind the variables
  std::array<int64_t, kNumZones> bound{};  // the most in use at once: a lower bound for any offsets
  // Host memory for reading and fetching, where the host cannot address the device's.
  int64_t host_bytes = 0;
  // Use at the fullest time of the private zone, by purpose, with variables and registers of the shared zone.
  std::array<int64_t, kNumMemoryUses> at_peak{};
  // The largest of these, most first.
  std::vector<LargestUse> largest;
};

struct PhysicalPlan {
  std::string name;
  int micro_batches = 1;
  std::vector<PhysicalActor> actors;  // index of a chain's actor: the chain; publishers behind
  std::vector<PhysicalRegister> registers;
  std::vector<ClassMemory> classes;
  std::vector<PhysicalOrder> orders;
  bool beside = false;          // runs beside other plans
  bool copies_on_clock = true;  // copies between tiers count for the clocks by which memory is shared (lifetimes.h)
};

// The input of planning; borrowed but for the mesh.
struct PlanInput {
  const Graph& graph;
  const OpRegistry& ops;
  PlanMesh mesh;
  const RankClasses& classes;
  const ChainGraph& chains;
  Boxings& boxings;
  const VariableTable& variables;
  int micro_batches = 1;
  KernelScratch kernel_scratch;
  const Schedule* schedule = nullptr;                 // of the pipeline; null: the order follows from credits
  const std::map<std::string, int>* slots = nullptr;  // of registers by name, in place of credits
  DeviceSpeeds device;                                // for predicted times
  // Of small registers whose values other ranks read only to tell of them. Where means of rounds fill a link, these
  // wait behind them, and ranks train on meanwhile.
  int slots_of_told = 1;
};

}  // namespace oneflow
