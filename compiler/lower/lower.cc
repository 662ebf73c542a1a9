#include "compiler/lower/lower.h"

#include <algorithm>

#include "compiler/plan/copy_pieces.h"

namespace oneflow {
namespace {

using Place = PhysicalOperand::Place;

template <typename From, typename To>
void CopyInts(const From& from, To* to) {
  to->Add(from.begin(), from.end());
}

pb::Zone Lower(Zone zone) { return static_cast<pb::Zone>(zone); }
// The numbers of dtypes and reductions are the same on the wire (dtype.h, sbp.h).
pb::DType Lower(DType dtype) { return static_cast<pb::DType>(dtype); }
pb::Reduce Lower(Reduction reduction) { return static_cast<pb::Reduce>(reduction); }

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

class Lowering {
 public:
  Lowering(const PlanInput& input, const PhysicalPlan& plan, uint64_t seed, Communicators& communicators)
      : in_(input), plan_(plan), seed_(seed), communicators_(communicators) {}

  pb::Plan Lower() {
    pb::Plan out;
    out.set_name(plan_.name);
    out.set_micro_batches(plan_.micro_batches);
    for (const PhysicalActor& actor : plan_.actors) LowerActor(actor, *out.add_actors());
    for (const PhysicalRegister& reg : plan_.registers) LowerRegister(reg, *out.add_registers());
    for (size_t rank = 0; rank < plan_.call_orders.size(); ++rank) {
      if (plan_.call_orders[rank].empty()) continue;
      pb::CollectiveOrder& order = *out.add_collective_orders();
      order.set_rank(static_cast<int>(rank));
      CopyInts(plan_.call_orders[rank], order.mutable_actors());
    }
    return out;
  }

 private:
  void LowerActor(const PhysicalActor& actor, pb::Actor& out) {
    out.set_rank(actor.rank);
    out.set_name(actor.name);
    out.set_acts_per_step(actor.acts_per_step);
    out.set_priority(actor.priority);
    const auto add_port = [](const PhysicalPort& port, pb::Port& to) {
      to.set_register_(port.reg);
      to.set_acts_per_slot(port.acts_per_slot);
    };
    for (const PhysicalPort& port : actor.inputs) add_port(port, *out.add_inputs());
    for (const PhysicalPort& port : actor.outputs) add_port(port, *out.add_outputs());
    for (const PhysicalInstruction& instruction : actor.instructions) {
      LowerInstruction(actor, instruction, *out.add_instructions());
    }
  }

  static void LowerRegister(const PhysicalRegister& reg, pb::Register& out) {
    out.set_producer(reg.producer);
    CopyInts(reg.consumers, out.mutable_consumers());
    out.set_slots(reg.slots);
    out.set_initially_filled(reg.initially_filled);
    out.set_zone(oneflow::Lower(reg.zone));
    out.set_offset(reg.offset);
    out.set_slot_bytes(reg.slot_bytes);
    out.set_slot_stride(reg.slot_stride);
    out.set_name(reg.name);
  }

  void LowerInstruction(const PhysicalActor& actor, const PhysicalInstruction& instruction, pb::Instruction& out) {
    const Node& node = in_.graph.node(instruction.node);
    out.set_op(node.op);
    out.set_node(node.name);
    out.set_source(node.source);
    for (const PhysicalOperand& x : instruction.inputs) LowerOperand(x, *out.add_inputs());
    for (const PhysicalOperand& x : instruction.outputs) LowerOperand(x, *out.add_outputs());
    if (instruction.role != PhysicalInstruction::Role::kNode) {
      LowerShare(instruction, *in_.boxings.by_node.at(instruction.node).ShareOf(actor.rank), out);
      return;
    }
    if (node.op == "boxing") {
      LowerCopy(instruction.node, actor.index, out);
      return;
    }
    out.set_kind(node.op == "read_data" ? pb::Instruction::READ
                 : node.op == "fetch"   ? pb::Instruction::FETCH
                                        : pb::Instruction::COMPUTE);
    LowerAttributes(node, out);
  }

  void LowerAttributes(const Node& node, pb::Instruction& out) const {
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

  void LowerOperand(const PhysicalOperand& x, pb::Operand& out) const {
    const Value& value = in_.graph.value(x.value);
    out.set_register_(x.place == Place::kRegister ? x.reg : -1);
    out.set_zone(oneflow::Lower(x.zone));
    out.set_offset(x.offset);
    out.set_dtype(oneflow::Lower(value.type.dtype));
    if (x.part != PhysicalOperand::Part::kShard) {  // a row of elements
      const int64_t count = x.num_bytes / static_cast<int64_t>(SizeOf(value.type.dtype));
      out.add_dims(count);
      out.add_logical_dims(count);
      out.add_start(0);
      return;
    }
    const Region region = ShardRegion(value.type.shape, *value.dist, x.index);
    CopyInts(region.extent, out.mutable_dims());
    CopyInts(value.type.shape.dims(), out.mutable_logical_dims());
    CopyInts(region.start, out.mutable_start());
  }

  void LowerCopy(NodeId id, int index, pb::Instruction& out) const {
    const BoxingUse& use = in_.boxings.by_node.at(id);
    const std::vector<int>& sources = use.sources[index];
    CopyProgram program = CopiesFor(in_.graph.value(in_.graph.node(id).inputs[0]).type.shape, use.step, index);
    for (CopyPiece& piece : program.pieces) {
      piece.source = static_cast<int>(std::find(sources.begin(), sources.end(), piece.source) - sources.begin());
    }
    LowerPieces(program, use.step.reduction, out);
  }

  // The part of a share that one instruction is.
  void LowerShare(const PhysicalInstruction& instruction, const BoxingShare& share, pb::Instruction& out) {
    const Reduction reduction = in_.boxings.by_node.at(instruction.node).step.reduction;
    if (instruction.role == PhysicalInstruction::Role::kPack) return LowerPieces(*share.pack, reduction, out);
    if (instruction.role == PhysicalInstruction::Role::kUnpack) {
      CopyProgram program = *share.unpack;
      if (!share.unpack_reads_shard) {  // then what was received is the only input
        for (CopyPiece& piece : program.pieces) piece.source = 0;
      }
      return LowerPieces(program, reduction, out);
    }
    out.set_kind(pb::Instruction::COLLECTIVE);
    out.set_collective(Name(share.call));
    out.set_reduce(oneflow::Lower(reduction));
    const auto known = std::find(communicators_.begin(), communicators_.end(), share.members);
    out.set_communicator(static_cast<int>(known - communicators_.begin()));
    if (known == communicators_.end()) communicators_.push_back(share.members);
    for (const PlannedTransfer& transfer : share.transfers) {
      pb::Transfer& to = *out.add_transfers();
      to.set_peer(transfer.peer);
      to.set_send_offset(transfer.send_offset);
      to.set_send_count(transfer.send_count);
      to.set_receive_offset(transfer.receive_offset);
      to.set_receive_count(transfer.receive_count);
    }
  }

  // Their sources are positions among the inputs.
  static void LowerPieces(const CopyProgram& program, Reduction reduction, pb::Instruction& out) {
    out.set_kind(pb::Instruction::COPY);
    out.set_zero_fill(program.zero_fill);
    out.set_reduce(oneflow::Lower(reduction));
    for (const CopyPiece& piece : program.pieces) {
      pb::Piece& to = *out.add_pieces();
      to.set_input(piece.source);
      CopyInts(piece.extent, to.mutable_extent());
      to.set_source_offset(piece.source_offset);
      CopyInts(piece.source_stride, to.mutable_source_stride());
      to.set_target_offset(piece.target_offset);
      CopyInts(piece.target_stride, to.mutable_target_stride());
      to.set_accumulate(piece.accumulate);
    }
  }

  const PlanInput& in_;
  const PhysicalPlan& plan_;
  const uint64_t seed_;
  Communicators& communicators_;
};

}  // namespace

uint64_t Fingerprint(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

pb::Plan LowerPlan(const PlanInput& input, const PhysicalPlan& plan, uint64_t seed, Communicators& communicators) {
  return Lowering(input, plan, seed, communicators).Lower();
}

void LowerCommunicators(const Communicators& communicators, pb::PlanSet& set) {
  for (const std::vector<int>& members : communicators) CopyInts(members, set.add_communicators()->mutable_ranks());
}

void LowerRanks(const CompileOptions& options, const VariableTable& variables, const std::vector<PhysicalPlan>& plans,
                pb::PlanSet& set) {
  for (int r = 0; r < options.mesh.size(); ++r) {
    std::array<int64_t, kNumZones> size = variables.num_bytes[r];
    const std::array<int64_t, kNumZones> held_by_variables = size;
    for (const PhysicalPlan& plan : plans) {
      for (int zone = 0; zone < kNumZones; ++zone) size[zone] = std::max(size[zone], plan.ranks[r].end[zone]);
    }
    pb::Rank& rank = *set.add_ranks();
    rank.set_process(r / options.ranks_per_process);
    rank.set_device(Device{options.device, r}.ToString());
    rank.set_private_bytes(size[0]);
    rank.set_shared_bytes(size[1]);
    rank.set_private_variable_bytes(held_by_variables[0]);
    rank.set_shared_variable_bytes(held_by_variables[1]);
  }
}

void LowerVariables(const VariableTable& variables, pb::PlanSet& set) {
  for (const PlannedVariable& variable : variables.variables) {
    pb::Variable& out = *set.add_variables();
    out.set_name(variable.name);
    out.set_dtype(Lower(variable.type.dtype));
    CopyInts(variable.type.shape.dims(), out.mutable_dims());
    out.set_init(variable.init);
    out.set_trainable(variable.trainable);
    for (const VariableShard& shard : variable.shards) {
      pb::Shard& to = *out.add_shards();
      to.set_rank(shard.rank);
      CopyInts(shard.region.start, to.mutable_start());
      CopyInts(shard.region.extent, to.mutable_extent());
      to.set_zone(Lower(shard.zone));
      to.set_offset(shard.offset);
      to.set_owner(shard.owner);
    }
  }
}

}  // namespace oneflow
