#include "compiler/lower/lower.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include "compiler/lower/repeated_field.h"
#include "compiler/plan/actor_parts.h"
#include "compiler/plan/owners.h"
#include "compiler/plan/sections.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

using Place = PhysicalOperand::Place;

pb::ClassOperand::Place Lower(Place place) { return static_cast<pb::ClassOperand::Place>(place); }

void LowerOffsets(const std::vector<int64_t>& offsets, google::protobuf::RepeatedPtrField<pb::ClassOffset>* out) {
  for (size_t c = 0; c < offsets.size(); ++c) {
    if (offsets[c] < 0) continue;
    pb::ClassOffset& offset = *out->Add();
    offset.set_class_(static_cast<int>(c));
    offset.set_offset(offsets[c]);
  }
}

void SetValue(const Attr& attr, pb::Attribute& out) {
  if (const bool* b = std::get_if<bool>(&attr)) {
    out.set_b(*b);
  } else if (const int64_t* i = std::get_if<int64_t>(&attr)) {
    out.set_i(*i);
  } else if (const double* f = std::get_if<double>(&attr)) {
    out.set_f(*f);
  } else if (const std::string* s = std::get_if<std::string>(&attr)) {
    out.set_s(*s);
  } else {
    CopyInts(std::get<std::vector<int64_t>>(attr), out.mutable_ints()->mutable_values());
  }
}

// Of a whole part of a step.
pb::Section SectionOf(StepPart part) {
  constexpr pb::Section kOfParts[] = {pb::FORWARD, pb::BACKWARD, pb::UPDATE};
  return kOfParts[static_cast<int>(part)];
}

pb::Section SectionOf(Role role) {
  if (role == Role::kInputGradient) return pb::INPUT_GRADIENTS;
  if (role == Role::kWeightGradient || role == Role::kReduction) return pb::WEIGHT_GRADIENTS;
  return SectionOf(PartOf(role));
}

pb::Section SectionOf(const Chain& chain) {
  if (chain.section > 0) return static_cast<pb::Section>(pb::FORWARD + static_cast<int>(KindOfSection(chain.section)));
  return SectionOf(chain.part);
}

// Assigns the numbers of instances, in the order of actors or registers.
class Numbering {
 public:
  int Take(int64_t instances) {
    const int64_t first = next_;
    next_ += instances;
    return static_cast<int>(std::min<int64_t>(first, INT_MAX));
  }
  absl::Status Check(absl::string_view what) const {
    if (next_ <= INT_MAX) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", next_, " ", what, " on all ranks together; ids number at most ", INT_MAX));
  }

 private:
  int64_t next_ = 0;
};

class Lowering {
 public:
  Lowering(const PlanInput& input, const PhysicalPlan& plan, uint64_t seed, PlanTables& tables)
      : in_(input), plan_(plan), seed_(seed), tables_(tables) {}

  absl::StatusOr<pb::ClassPlan> Lower() {
    pb::ClassPlan out;
    out.set_name(plan_.name);
    out.set_micro_batches(plan_.micro_batches);
    out.set_mesh(tables_.Grid(in_.mesh.whole()));
    for (const PhysicalActor& actor : plan_.actors) LowerActor(actor, *out.add_actors());
    for (const PhysicalRegister& reg : plan_.registers) LowerRegister(reg, *out.add_registers());
    for (const ClassMemory& memory : plan_.classes) LowerMemory(memory, *out.add_memory());
    for (const PhysicalOrder& order : plan_.orders) {
      pb::ClassOrder& to = *out.add_orders();
      to.set_class_(order.rank_class);
      to.set_queue(order.queue);
      CopyInts(order.actors, to.mutable_actors());
    }
    OF_RETURN_IF_ERROR(actor_ids_.Check("actors"));
    OF_RETURN_IF_ERROR(register_ids_.Check("registers"));
    return out;
  }

 private:
  // The number of ranks on which the actor acts.
  static int64_t NumInstances(const PhysicalActor& actor) {
    int64_t instances = actor.placement.size();
    if (!actor.senders.has_value() || *actor.senders == actor.placement) return instances;
    for (const int rank : actor.senders->ranks()) instances += actor.placement.IndexOf(rank) < 0;
    return instances;
  }

  static void LowerMemory(const ClassMemory& memory, pb::ClassMemory& out) {
    for (int zone = 0; zone < kNumZones; ++zone) {
      pb::RegionBytes& region = *out.add_zones();
      region.set_bytes(memory.bytes[zone]);
      region.set_bound(memory.bound[zone]);
    }
    for (int use = 0; use < kNumMemoryUses; ++use) {
      pb::MemoryUse& to = *out.add_at_peak();
      to.set_what(Name(static_cast<MemoryUse>(use)));
      to.set_bytes(memory.at_peak[use]);
    }
    for (const LargestUse& use : memory.largest) {
      pb::MemoryUse& to = *out.add_largest();
      to.set_what(Name(use.use));
      to.set_bytes(use.num_bytes);
      to.set_name(use.name);
    }
  }

  void LowerActor(const PhysicalActor& actor, pb::ClassActor& out) {
    out.set_grid(tables_.Grid(actor.placement));
    out.set_senders(actor.senders.has_value() ? tables_.Grid(*actor.senders) : -1);
    out.set_name(actor.name);
    out.set_acts_per_step(actor.acts_per_step);
    out.set_priority(actor.priority);
    out.set_queue(actor.queue);
    if (actor.chain >= 0) {
      const Chain& chain = in_.chains.chains[actor.chain];
      out.set_section(SectionOf(chain));
      out.set_chunk(std::max(0, in_.graph.node(chain.nodes[0]).chunk));
    }
    const auto add_port = [](const PhysicalPort& port, pb::Port& to) {
      to.set_register_(port.reg);
      to.set_acts_per_slot(port.acts_per_slot);
    };
    for (const PhysicalPort& port : actor.inputs) add_port(port, *out.add_inputs());
    for (const PhysicalPort& port : actor.outputs) add_port(port, *out.add_outputs());
    for (const PhysicalInstruction& instruction : actor.instructions) {
      LowerInstruction(instruction, *out.add_instructions());
    }
    if (actor.chain >= 0) LowerParts(in_.chains.chains[actor.chain], out);
    out.set_pinned_bytes(actor.pinned);
    out.set_pinned_offset(actor.pinned_offset);
    out.set_first_id(actor_ids_.Take(NumInstances(actor)));
  }

  void LowerParts(const Chain& chain, pb::ClassActor& out) const {
    for (const ActorPart& part : PartsOf(in_.graph, chain, in_.ops, in_.device)) {
      pb::ActorPart& to = *out.add_parts();
      to.set_section(SectionOf(part.role));
      to.set_chunk(part.chunk);
      to.set_ns(std::llround(1e9 * part.seconds));
    }
    if (chain.kind == Chain::Kind::kBoxing) {
      for (const std::string& axis : AxesCrossed(in_.graph, chain, in_.mesh)) out.add_crosses(axis);
    }
  }

  void LowerRegister(const PhysicalRegister& reg, pb::ClassRegister& out) {
    out.set_producer(reg.producer);
    CopyInts(reg.consumers, out.mutable_consumers());
    out.set_grid(tables_.Grid(reg.placement));
    out.set_slots(reg.slots);
    out.set_initially_filled(reg.initially_filled);
    out.set_zone(reg.zone);
    out.set_slot_bytes(reg.slot_bytes);
    out.set_slot_stride(reg.slot_stride);
    out.set_variable(reg.variable);
    out.set_name(reg.name);
    out.set_offset(reg.offset);
    out.set_first_id(register_ids_.Take(reg.placement.size()));
    out.set_others_only(reg.others_only);
  }

  static pb::Instruction::Kind KindOf(OpKind kind) {
    switch (kind) {
      case OpKind::kBoxing:
        return pb::Instruction::COPY;
      case OpKind::kData:
        return pb::Instruction::READ;
      case OpKind::kFetch:
        return pb::Instruction::FETCH;
      case OpKind::kCall:
        return pb::Instruction::CALL;
      case OpKind::kLoad:
      case OpKind::kStore:
        return pb::Instruction::MOVE;
      default:
        return pb::Instruction::COMPUTE;
    }
  }

  void LowerInstruction(const PhysicalInstruction& instruction, pb::ClassInstruction& out) {
    const Node& node = in_.graph.node(instruction.node);
    out.set_op(node.op);
    out.set_kind(KindOf(in_.ops.KindOf(node.op)));
    out.set_node(node.name);
    out.set_source(node.source);
    for (const PhysicalOperand& x : instruction.inputs) LowerOperand(x, *out.add_inputs());
    for (const PhysicalOperand& x : instruction.outputs) LowerOperand(x, *out.add_outputs());
    for (const PhysicalOperand& x : instruction.scratch) {
      if (x.part == PhysicalOperand::Part::kPacked) {
        out.set_packed_offset(x.offset);
        out.set_packed_bytes(x.num_bytes);
      } else if (x.part == PhysicalOperand::Part::kReceived) {
        out.set_received_offset(x.offset);
        out.set_received_bytes(x.num_bytes);
      } else {
        out.set_scratch_offset(x.offset);
        out.set_scratch_bytes(x.num_bytes);
      }
    }
    out.set_group(instruction.group_begin + 1);
    if (!in_.ops.Is(node.op, OpKind::kBoxing)) LowerAttributes(node, out);
  }

  void LowerAttributes(const Node& node, pb::ClassInstruction& out) const {
    AttrMap attrs = node.attrs;
    const OpDef* op = in_.ops.Find(node.op);
    if (op != nullptr && op->random) {
      attrs.Set("seed", static_cast<int64_t>(seed_));
      attrs.Set("key", static_cast<int64_t>(Fingerprint(node.attrs.String("key", node.name))));
    }
    for (const auto& [name, value] : attrs.items()) {
      pb::Attribute& attribute = *out.add_attributes();
      attribute.set_name(name);
      SetValue(value, attribute);
    }
  }

  void LowerOperand(const PhysicalOperand& x, pb::ClassOperand& out) {
    const Value& value = in_.graph.value(x.value);
    out.set_place(oneflow::Lower(x.place));
    out.set_index(x.index);
    out.set_offset(x.offset);
    out.set_tensor(tables_.Tensor(value.type, *value.dist, value.layout));
    out.set_value(x.value);
  }

  const PlanInput& in_;
  const PhysicalPlan& plan_;
  const uint64_t seed_;
  PlanTables& tables_;
  Numbering actor_ids_, register_ids_;
};

}  // namespace

uint64_t Fingerprint(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

int PlanTables::Grid(const Placement& placement) {
  const auto [it, inserted] = grids_.try_emplace(placement, set_.grids_size());
  if (!inserted) return it->second;
  pb::RankGrid& grid = *set_.add_grids();
  for (const Axis& axis : placement.axes()) {
    grid.add_axes(axis.name);
    grid.add_sizes(axis.size);
  }
  if (placement.strides().size() == placement.axes().size()) {
    grid.set_first(placement.ranks()[0]);
    CopyInts(placement.strides(), grid.mutable_strides());
  } else {
    CopyInts(placement.ranks(), grid.mutable_ranks());
  }
  return it->second;
}

int PlanTables::Tensor(const TensorType& type, const DistType& dist, MemoryLayout layout) {
  const int grid = Grid(dist.placement);
  const auto [it, inserted] = tensors_.try_emplace(
      std::tuple(static_cast<int>(type.dtype), type.shape.dims(), type.ragged, layout, grid, dist.sbp),
      set_.tensors_size());
  if (!inserted) return it->second;
  pb::ClassTensor& tensor = *set_.add_tensors();
  tensor.set_dtype(static_cast<pb::DType>(type.dtype));  // the numbers are the same on the wire (dtype.h)
  CopyInts(type.shape.dims(), tensor.mutable_dims());
  tensor.set_ragged(type.ragged + 1);
  tensor.set_layout(static_cast<int>(layout));
  tensor.set_grid(grid);
  tensor.set_sbp(ToString(dist.sbp));
  return it->second;
}

absl::StatusOr<pb::ClassPlan> LowerPlan(const PlanInput& input, const PhysicalPlan& plan, uint64_t seed,
                                        PlanTables& tables) {
  return Lowering(input, plan, seed, tables).Lower();
}

void LowerRanks(const Topology& topology, DeviceKind device, const RankClasses& classes, const VariableTable& variables,
                const std::vector<PhysicalPlan>& plans, pb::PlanSet& set) {
  pb::JobHosts& hosts = *set.mutable_hosts();
  hosts.set_num_ranks(topology.num_ranks());
  hosts.set_ranks_per_process(topology.ranks_per_process());
  hosts.set_device(device == DeviceKind::kCpu ? "cpu" : "cuda");
  for (const HostGroup& group : topology.groups()) {
    pb::HostsAlike& alike = *hosts.add_groups();
    alike.set_count(group.count);
    alike.set_devices(group.devices);
  }
  for (int c = 0; c < classes.size(); ++c) {
    std::array<int64_t, kNumZones> size = variables.num_bytes[c];
    int64_t host_bytes = 0;
    for (const bool beside : {false, true}) {
      const std::array<int64_t, kNumZones> begin = size;
      for (const PhysicalPlan& plan : plans) {
        if (plan.beside != beside) continue;
        host_bytes += plan.classes[c].host_bytes;
        for (int zone = 0; zone < kNumZones; ++zone) {
          const int64_t others = begin[zone] - variables.num_bytes[c][zone];
          const int64_t from = variables.num_bytes[c][zone] + RoomIn(static_cast<Zone>(zone), others);
          size[zone] = std::max(size[zone], from + plan.classes[c].bytes[zone]);
        }
      }
    }
    pb::RankClass& to = *set.add_classes();
    CopyInts(classes.ranks(c), to.mutable_ranks());
    for (int zone = 0; zone < kNumZones; ++zone) {
      pb::ZoneBytes& bytes = *to.add_zones();
      bytes.set_bytes(size[zone]);
      bytes.set_variable_bytes(variables.num_bytes[c][zone]);
    }
    to.set_host_bytes(host_bytes + BytesBesideFile(size[kDiskZone]));
  }
}

void AddCheckpointCopies(const RankClasses& classes, const VariableTable& variables, pb::PlanSet& set) {
  Owners owners;
  for (const PlannedVariable& variable : variables.variables) owners.Next(variable.type, variable.dist);
  owners.ForEachLoad([&](const Placement& placement, int64_t bytes) {
    for (const int c : classes.In(placement)) {
      pb::RankClass& of = *set.mutable_classes(c);
      of.set_host_bytes(of.host_bytes() + bytes);
    }
  });
}

void LowerVariables(const VariableTable& variables, PlanTables& tables, pb::PlanSet& set) {
  for (const PlannedVariable& variable : variables.variables) {
    pb::ClassVariable& out = *set.add_variables();
    out.set_name(variable.name);
    out.set_tensor(tables.Tensor(variable.type, variable.dist));
    out.set_init(variable.init);
    out.set_role(static_cast<pb::VariableRole>(variable.role));
    out.set_zone(variable.zone);
    LowerOffsets(variable.offsets, out.mutable_offsets());
  }
}

}  // namespace oneflow
