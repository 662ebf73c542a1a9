#include "compiler/plan/memory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "compiler/plan/direct_order.h"
#include "compiler/plan/lifetimes.h"
#include "compiler/plan/packing.h"
#include "compiler/plan/shared_places.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

using Place = PhysicalOperand::Place;
using Content = std::pair<ValueId, PhysicalOperand::Part>;

struct Life {
  int64_t num_bytes = 0;
  int first = 0;    // instruction that writes it
  int last = 0;     // last instruction that touches it
  Content content;  // its first content
};

// The buffers of one act's workspace: values, merged where an op works in place.
struct Buffers {
  std::vector<Life> lives;
  std::map<Content, int> of_value;
};

// The buffer of an input that output `o` of the instruction may take over, or -1.
int InPlaceBuffer(const PlanInput& input, const PhysicalInstruction& instruction, int at, int o, const Buffers& buffers,
                  const std::map<Content, int>& last_use) {
  const Node& node = input.graph.node(instruction.node);
  const OpDef* op = input.ops.Find(node.op);
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
    const int end = EndOfUse(actor, at);
    for (const PhysicalOperand& x : actor.instructions[at].outputs) last_use[x.content()] = end;
    for (const PhysicalOperand& x : actor.instructions[at].inputs) last_use[x.content()] = end;
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
        buffers.lives.push_back({x.num_bytes, BeginOfUse(actor, at), EndOfUse(actor, at), x.content()});
      }
      buffers.of_value[x.content()] = buffer;
      buffers.lives[buffer].last = std::max(buffers.lives[buffer].last, last_use[x.content()]);
    }
    for (const PhysicalOperand& x : instruction.scratch) {
      if (x.part == PhysicalOperand::Part::kTransfer) continue;
      buffers.of_value[x.content()] = static_cast<int>(buffers.lives.size());
      buffers.lives.push_back({x.num_bytes, BeginOfUse(actor, at), EndOfUse(actor, at), x.content()});
    }
  }
  return buffers;
}

// Collects everything that needs memory in the plan's regions, and writes down the offsets.
class Assignment {
 public:
  Assignment(const PlanInput& input, PhysicalPlan& plan) : input_(input), plan_(plan), lifetimes_(input, plan) {}

  // What needs memory, and when.
  absl::Status CollectClaims() {
    for (size_t r = 0; r < plan_.registers.size(); ++r) ClaimRegister(static_cast<int>(r));
    for (size_t a = 0; a < plan_.actors.size(); ++a) {
      ClaimPinned(static_cast<int>(a));
      ClaimTransfers(static_cast<int>(a));
      ClaimWorkspace(static_cast<int>(a));
    }
    OF_RETURN_IF_ERROR(CheckSizes());
    JoinThoseInTurn();
    return absl::OkStatus();
  }

  // Of any class at one time, in the private zone.
  int64_t MostBytes() const { return MostBytes(claims_[0]); }

  void PlaceClaims() {
    for (int zone = 0; zone < kNumZones; ++zone) {
      const Packing packing = Pack(claims_[zone], lifetimes_.clocks());
      for (size_t i = 0; i < claims_[zone].size(); ++i) {
        for (const Offset& offset : targets_[zone][i].offsets) *offset.of = packing.offsets[i] + offset.at;
      }
      for (size_t c = 0; c < plan_.classes.size(); ++c) {
        plan_.classes[c].bytes[zone] = packing.num_bytes[c];
        plan_.classes[c].bound[zone] = packing.bound[c];
      }
      if (zone == 0) fullest_ = packing.fullest;
    }
    if (input_.boxings.by_sending()) CountHostMemory();  // else the host addresses all memory
    SayPeaks();
  }

 private:
  // Where to write down an offset: that of a claim, or so many bytes behind it.
  struct Offset {
    Offset(int64_t* of, int64_t at = 0) : of(of), at(at) {}
    int64_t* of;
    int64_t at;
  };
  // The owner of a claim's offset, and its purpose.
  struct Target {
    std::vector<Offset> offsets;
    MemoryUse use = MemoryUse::kActivations;
    ValueId value = -1;  // the value in it, or the first of several
  };

  MemoryUse UseOf(ValueId value) const {
    const Node& node = input_.graph.node(input_.graph.value(value).producer);
    const OpKind kind = input_.ops.KindOf(node.op);
    if (kind == OpKind::kBoxing || kind == OpKind::kLoad) return MemoryUse::kTransfers;
    switch (node.role) {
      case Role::kForward:
      case Role::kInputGradient:
      case Role::kFusedGradient:
      case Role::kRecompute:
        return MemoryUse::kActivations;
      case Role::kUpdate:
        return MemoryUse::kOptimizer;
      default:
        return MemoryUse::kGradients;
    }
  }

  void ClaimRegister(int id) {
    PhysicalRegister& reg = plan_.registers[id];
    if (reg.variable >= 0 || reg.slot_bytes == 0) return;
    const int zone = static_cast<int>(reg.zone);
    Claim& claim = claims_[zone].emplace_back();
    claim.num_bytes = reg.slots * reg.slot_stride;
    claim.zone = reg.zone;
    claim.when.assign(lifetimes_.OfRegister(id).begin(), lifetimes_.OfRegister(id).end());
    targets_[zone].push_back({{&reg.offset}, UseOf(reg.first_value), reg.first_value});
  }

  // Registers that take turns share places; the way counts by which least is in use at once.
  void JoinThoseInTurn() {
    const DirectOrder order(input_, plan_);
    if (order.registers().empty()) return;
    std::map<const int64_t*, size_t> claim_of;  // of the private zone, by the offset that it is for
    for (size_t i = 0; i < claims_[0].size(); ++i) {
      if (!targets_[0][i].offsets.empty()) claim_of[targets_[0][i].offsets[0].of] = i;
    }
    std::vector<std::pair<int, Claim>> registers;
    std::vector<bool> joined(claims_[0].size(), false);
    for (const int reg : order.registers()) {
      const auto own = claim_of.find(&plan_.registers[reg].offset);
      if (own == claim_of.end()) continue;
      registers.emplace_back(reg, claims_[0][own->second]);
      joined[own->second] = true;
    }
    std::vector<Claim> others;
    for (size_t i = 0; i < joined.size(); ++i) {
      if (!joined[i]) others.push_back(claims_[0][i]);
    }
    std::vector<SharedPlace> best;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const double most_lost : {0.0, 0.1, 0.5}) {
      std::vector<SharedPlace> places = PlaceInTurn(registers, order, most_lost);
      std::vector<Claim> all = others;
      for (const SharedPlace& place : places) all.push_back(place.claim);
      const int64_t most = MostBytes(all);
      if (most >= least) continue;
      least = most;
      best = std::move(places);
    }
    for (const SharedPlace& place : best) {
      const size_t first = claim_of.at(&plan_.registers[place.registers[0].id].offset);
      joined[first] = false;
      claims_[0][first] = place.claim;
      for (size_t i = 1; i < place.registers.size(); ++i) {
        const SharedPlace::Register& reg = place.registers[i];
        targets_[0][first].offsets.emplace_back(&plan_.registers[reg.id].offset, reg.at);
      }
    }
    RemoveClaims(joined);
  }

  void RemoveClaims(const std::vector<bool>& removed) {
    size_t kept = 0;
    for (size_t i = 0; i < removed.size(); ++i) {
      if (removed[i]) continue;
      if (kept != i) {
        claims_[0][kept] = std::move(claims_[0][i]);
        targets_[0][kept] = std::move(targets_[0][i]);
      }
      ++kept;
    }
    claims_[0].resize(kept);
    targets_[0].resize(kept);
  }

  // Kept from act to act. Data of other hosts may arrive at any time.
  void ClaimPinned(int id) {
    PhysicalActor& actor = plan_.actors[id];
    ValueId first = -1;
    for (const PhysicalInstruction& instruction : actor.instructions) {
      if (instruction.landed == 0) continue;
      if (first < 0) first = input_.graph.node(instruction.node).outputs[0];
      actor.pinned += Align(instruction.landed) * SlotsOf(instruction);
    }
    for (PhysicalInstruction& instruction : actor.instructions) {
      for (PhysicalOperand& x : instruction.outputs) {
        if (x.place != Place::kPinned) continue;
        if (first < 0) first = x.value;
        x.offset = actor.pinned;
        actor.pinned += Align(x.num_bytes);
      }
    }
    if (actor.pinned > 0) ClaimForAllActs(actor, actor.pinned, {{&actor.pinned_offset}, UseOf(first), first});
  }

  int64_t MostBytes(absl::Span<const Claim> claims) const {
    const std::vector<int64_t> in_use = MostInUse(claims, lifetimes_.clocks());
    return in_use.empty() ? 0 : *std::max_element(in_use.begin(), in_use.end());
  }

  // The slots of a boxing's input: rows and counts.
  int64_t SlotsOf(const PhysicalInstruction& boxing) const {
    int slots = 1;
    for (const PhysicalOperand& x : boxing.inputs) {
      if (x.place == Place::kRegister) slots = std::max(slots, plan_.registers[x.index].slots);
    }
    return slots;
  }

  void ClaimTransfers(int id) {
    PhysicalActor& actor = plan_.actors[id];
    for (PhysicalInstruction& instruction : actor.instructions) {
      for (PhysicalOperand& x : instruction.scratch) {
        if (x.part == PhysicalOperand::Part::kTransfer)
          ClaimForAllActs(actor, x.num_bytes, {{&x.offset}, MemoryUse::kTransfers, x.value});
      }
    }
  }

  void ClaimForAllActs(const PhysicalActor& actor, int64_t num_bytes, Target target) {
    Claim& claim = claims_[0].emplace_back();
    claim.num_bytes = num_bytes;
    for (const int c : ClassesOf(input_.classes, actor))
      claim.when.push_back({c, 0, lifetimes_.clocks()[c].num_ticks - 1, true});
    targets_[0].push_back(std::move(target));
  }

  void ClaimWorkspace(int id) {
    PhysicalActor& actor = plan_.actors[id];
    const Buffers buffers = FindBuffers(input_, actor);
    const size_t base = claims_[0].size();
    for (const Life& life : buffers.lives) {
      Claim& claim = claims_[0].emplace_back();
      claim.num_bytes = life.num_bytes;
      const std::vector<Ticks> when = lifetimes_.OfInstructions(id, life.first, life.last);
      claim.when.assign(when.begin(), when.end());
      if (QueueKindOf(actor.queue).is_main) {  // acts of all other queues may run beside those of any queue
        claim.actor = id;
        claim.first = life.first;
        claim.last = life.last;
      }
      const bool shard = life.content.second == PhysicalOperand::Part::kShard;
      targets_[0].push_back({{}, shard ? UseOf(life.content.first) : MemoryUse::kScratch, life.content.first});
    }
    const auto place = [&](PhysicalOperand& x) {
      if (x.place == Place::kWorkspace && x.part != PhysicalOperand::Part::kTransfer) {
        targets_[0][base + buffers.of_value.at(x.content())].offsets.push_back(&x.offset);
      }
    };
    for (PhysicalInstruction& instruction : actor.instructions) {
      for (PhysicalOperand& x : instruction.inputs) place(x);
      for (PhysicalOperand& x : instruction.scratch) place(x);
      for (PhysicalOperand& x : instruction.outputs) place(x);
    }
  }

  absl::Status CheckSizes() const {
    constexpr double kMost = 4e18;
    double total = 0;
    for (const std::array<int64_t, kNumZones>& of_zones : input_.variables.num_bytes) {
      for (const int64_t bytes : of_zones) total += static_cast<double>(bytes);
    }
    int64_t largest = 0;
    ValueId value = -1;
    for (int zone = 0; zone < kNumZones; ++zone) {
      for (size_t i = 0; i < claims_[zone].size(); ++i) {
        total += static_cast<double>(claims_[zone][i].num_bytes);
        if (claims_[zone][i].num_bytes <= largest) continue;
        largest = claims_[zone][i].num_bytes;
        value = targets_[zone][i].value;
      }
    }
    if (total < kMost) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("its values take ", total, " bytes in all; at most ", kMost,
                                                   " can be counted. The largest, ", largest, " bytes, is of ",
                                                   value < 0 ? "a variable" : Where(Producer(value))));
  }

  // Every instruction of the host has slots of its own there.
  void CountHostMemory() {
    for (const PhysicalActor& actor : plan_.actors) {
      int64_t num_bytes = 0;
      for (const PhysicalInstruction& instruction : actor.instructions) {
        if (QueueKindOf(actor.queue).launches) continue;
        const OpKind kind = input_.ops.KindOf(input_.graph.node(instruction.node).op);
        num_bytes += TransferBytes(kind, instruction, [](int64_t bytes) { return bytes; });
      }
      if (num_bytes == 0) continue;
      for (const int c : ClassesOf(input_.classes, actor)) plan_.classes[c].host_bytes += kTransferSlots * num_bytes;
    }
  }

  const Node& Producer(ValueId value) const { return input_.graph.node(input_.graph.value(value).producer); }

  void SayPeaks() {
    for (const PlannedVariable& variable : input_.variables.variables) {
      for (size_t c = 0; c < plan_.classes.size(); ++c) {
        if (variable.offsets[c] < 0 || !ZoneKindOf(variable.zone).of_device) continue;
        Use(c, variable.use, variable.name, Room(variable.num_bytes));
      }
    }
    for (int zone = 0; zone < kNumZones; ++zone) {
      if (!ZoneKindOf(zone).of_device) continue;
      for (size_t i = 0; i < claims_[zone].size(); ++i) {
        const Claim& claim = claims_[zone][i];
        const Target& target = targets_[zone][i];
        for (const Ticks& ticks : claim.when) {
          const Packing::Fullest& at = fullest_[ticks.rank_class];
          const bool placed = claim.actor < 0 || ticks.certain;
          const bool in_use =
              ticks.first <= at.tick && at.tick <= ticks.last &&
              (placed || (claim.actor == at.actor && claim.first <= at.instruction && at.instruction <= claim.last));
          if (!in_use) continue;
          Use(ticks.rank_class, target.use, Producer(target.value).name, claim.room());
        }
      }
    }
  }

  void Use(size_t rank_class, MemoryUse use, const std::string& name, int64_t num_bytes) {
    constexpr size_t kNamed = 5;
    ClassMemory& memory = plan_.classes[rank_class];
    memory.at_peak[static_cast<int>(use)] += num_bytes;
    const auto behind = std::find_if(memory.largest.begin(), memory.largest.end(),
                                     [&](const LargestUse& other) { return other.num_bytes < num_bytes; });
    if (behind - memory.largest.begin() >= static_cast<ptrdiff_t>(kNamed)) return;
    memory.largest.insert(behind, {use, name, num_bytes});
    if (memory.largest.size() > kNamed) memory.largest.pop_back();
  }

  const PlanInput& input_;
  PhysicalPlan& plan_;
  const Lifetimes lifetimes_;
  std::array<std::vector<Claim>, kNumZones> claims_;
  std::array<std::vector<Target>, kNumZones> targets_;  // of each claim
  std::vector<Packing::Fullest> fullest_;               // of the private zone, by class
};

}  // namespace

absl::Status AssignMemory(const PlanInput& input, PhysicalPlan& plan) {
  plan.copies_on_clock = true;
  const bool has_copies = std::any_of(plan.actors.begin(), plan.actors.end(),
                                      [](const PhysicalActor& actor) { return QueueKindOf(actor.queue).of_tier; });
  std::optional<PhysicalPlan> other;
  if (has_copies) other = plan;
  Assignment assignment(input, plan);
  OF_RETURN_IF_ERROR(assignment.CollectClaims());
  if (other.has_value()) {
    other->copies_on_clock = false;
    Assignment without(input, *other);
    OF_RETURN_IF_ERROR(without.CollectClaims());
    if (without.MostBytes() < assignment.MostBytes()) {
      without.PlaceClaims();
      plan = *std::move(other);
      return absl::OkStatus();
    }
  }
  assignment.PlaceClaims();
  return absl::OkStatus();
}

}  // namespace oneflow
