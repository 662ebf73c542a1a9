#include "compiler/plan/memory.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace oneflow {
namespace {

using Place = PhysicalOperand::Place;
using Content = std::pair<ValueId, PhysicalOperand::Part>;

// The buffers of one act's workspace: values, merged where an op works in place.
struct Buffers {
  std::vector<Life> lives;
  std::map<Content, int> of_value;
};

// The buffer of an input that output `o` of the instruction may take over, or -1.
int InPlaceBuffer(const PlanInput& input, const PhysicalInstruction& instruction, int at, int o, const Buffers& buffers,
                  const std::map<Content, int>& last_use) {
  const Node& node = input.graph.node(instruction.node);
  const OpDef* op = node.op == "boxing" ? nullptr : input.ops.Find(node.op);
  if (op == nullptr) return -1;
  for (const auto& [from, to] : op->in_place) {
    if (to != o || from >= static_cast<int>(instruction.inputs.size())) continue;
    const PhysicalOperand& operand = instruction.inputs[from];
    if (operand.place != Place::kWorkspace || operand.num_bytes != instruction.outputs[o].num_bytes) continue;
    if (last_use.at(operand.content()) != at || std::count(node.inputs.begin(), node.inputs.end(), operand.value) != 1)
      continue;
    const int buffer = buffers.of_value.at(operand.content());
    const bool taken =
        std::any_of(instruction.outputs.begin(), instruction.outputs.begin() + o, [&](const PhysicalOperand& x) {
          const auto it = buffers.of_value.find(x.content());
          return it != buffers.of_value.end() && it->second == buffer;
        });
    if (!taken) return buffer;
  }
  return -1;
}

Buffers FindBuffers(const PlanInput& input, const PhysicalActor& actor) {
  std::map<Content, int> last_use;
  const int n = static_cast<int>(actor.instructions.size());
  for (int at = 0; at < n; ++at) {
    for (const PhysicalOperand& x : actor.instructions[at].outputs) last_use[x.content()] = at;
    for (const PhysicalOperand& x : actor.instructions[at].inputs) last_use[x.content()] = at;
  }
  Buffers buffers;
  for (int at = 0; at < n; ++at) {
    const PhysicalInstruction& instruction = actor.instructions[at];
    for (size_t o = 0; o < instruction.outputs.size(); ++o) {
      const PhysicalOperand& x = instruction.outputs[o];
      if (x.place != Place::kWorkspace) continue;
      int buffer = InPlaceBuffer(input, instruction, at, static_cast<int>(o), buffers, last_use);
      if (buffer < 0) {
        buffer = static_cast<int>(buffers.lives.size());
        buffers.lives.push_back({x.num_bytes, at, at});
      }
      buffers.of_value[x.content()] = buffer;
      buffers.lives[buffer].last = std::max(buffers.lives[buffer].last, last_use[x.content()]);
    }
    for (const PhysicalOperand& x : instruction.scratch) {
      buffers.of_value[x.content()] = static_cast<int>(buffers.lives.size());
      buffers.lives.push_back({x.num_bytes, at, at});
    }
  }
  return buffers;
}

// Offsets within the workspace and within the actor's pinned memory.
void PackActor(const PlanInput& input, PhysicalActor& actor) {
  const Buffers buffers = FindBuffers(input, actor);
  const Packing packing = Pack(buffers.lives);
  actor.workspace = packing.num_bytes;
  actor.workspace_bound = packing.bound;
  const auto place = [&](PhysicalOperand& x) {
    if (x.place == Place::kWorkspace) x.offset = packing.offsets[buffers.of_value.at(x.content())];
  };
  for (PhysicalInstruction& instruction : actor.instructions) {
    for (PhysicalOperand& x : instruction.inputs) place(x);
    for (PhysicalOperand& x : instruction.scratch) place(x);
    for (PhysicalOperand& x : instruction.outputs) {
      place(x);
      if (x.place != Place::kPinned) continue;
      x.offset = actor.pinned;
      actor.pinned += Align(x.num_bytes);
    }
  }
}

// The classes that have an instance of the actor.
std::vector<int> ClassesOf(const RankClasses& classes, const PhysicalActor& actor) {
  std::vector<int> result = classes.In(actor.placement);
  if (!actor.senders.has_value()) return result;
  for (const int c : classes.In(*actor.senders)) {
    if (std::find(result.begin(), result.end(), c) == result.end()) result.push_back(c);
  }
  return result;
}

}  // namespace

Packing Pack(absl::Span<const Life> lives) {
  Packing packing;
  packing.offsets.resize(lives.size());
  std::vector<int> order(lives.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return lives[a].num_bytes > lives[b].num_bytes; });
  std::vector<int> placed;  // by offset
  int end_of_time = 0;
  for (int i : order) {
    int64_t offset = 0;
    for (int other : placed) {
      if (lives[other].last < lives[i].first || lives[i].last < lives[other].first) continue;
      if (offset + Align(lives[i].num_bytes) <= packing.offsets[other]) break;
      offset = std::max(offset, packing.offsets[other] + Align(lives[other].num_bytes));
    }
    packing.offsets[i] = offset;
    packing.num_bytes = std::max(packing.num_bytes, offset + Align(lives[i].num_bytes));
    const auto behind = std::upper_bound(placed.begin(), placed.end(), offset,
                                         [&](int64_t value, int other) { return value < packing.offsets[other]; });
    placed.insert(behind, i);
    end_of_time = std::max(end_of_time, lives[i].last + 1);
  }
  std::vector<int64_t> change(end_of_time + 1, 0);
  for (const Life& life : lives) {
    change[life.first] += Align(life.num_bytes);
    change[life.last + 1] -= Align(life.num_bytes);
  }
  int64_t alive = 0;
  for (int64_t delta : change) packing.bound = std::max(packing.bound, alive += delta);
  return packing;
}

void AssignMemory(const PlanInput& input, PhysicalPlan& plan) {
  for (size_t c = 0; c < plan.classes.size(); ++c) plan.classes[c].end = input.variables.num_bytes[c];
  for (PhysicalRegister& reg : plan.registers) {
    if (reg.variable >= 0) continue;
    for (const int c : input.classes.In(reg.placement)) {
      ClassMemory& memory = plan.classes[c];
      const int zone = static_cast<int>(reg.zone);
      reg.offsets[c] = memory.end[zone];
      memory.end[zone] += reg.slots * reg.slot_stride;
      memory.registers[zone] += reg.slots * reg.slot_stride;
    }
  }
  constexpr int kPrivate = static_cast<int>(Zone::kPrivate);
  for (PhysicalActor& actor : plan.actors) {
    PackActor(input, actor);
    actor.pinned_offsets.assign(plan.classes.size(), -1);
    for (const int c : ClassesOf(input.classes, actor)) {
      ClassMemory& memory = plan.classes[c];
      actor.pinned_offsets[c] = memory.end[kPrivate];
      memory.end[kPrivate] += actor.pinned;
      memory.pinned += actor.pinned;
      memory.workspace = std::max(memory.workspace, actor.workspace);
      memory.workspace_bound = std::max(memory.workspace_bound, actor.workspace_bound);
    }
  }
  for (ClassMemory& memory : plan.classes) {
    memory.workspace_offset = memory.end[kPrivate];
    memory.end[kPrivate] += memory.workspace;
  }
}

}  // namespace oneflow
