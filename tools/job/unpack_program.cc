#include <algorithm>
#include <string>
#include <vector>

#include "compiler/lower/actor_facts.h"
#include "tools/job/packed_program.h"

namespace oneflow {
namespace {

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("packed program: ", parts...));
}

absl::Status CheckIndex(absl::string_view what, int64_t index, int64_t size) {
  if (index >= 0 && index < size) return absl::OkStatus();
  return Bad(what, " ", index, " is not one of ", size);
}

absl::Status CheckCount(absl::string_view what, int64_t count, int64_t expected) {
  if (count == expected) return absl::OkStatus();
  return Bad(count, " ", what, " where there are ", expected);
}

// Of a list with one entry for all instances, or one for each.
template <typename List>
absl::Status CheckPerInstance(absl::string_view what, const List& list, int instances) {
  return list.size() == 1 ? absl::OkStatus() : CheckCount(what, list.size(), instances);
}
template <typename List>
auto Of(const List& list, int instance) -> decltype(list[0]) {
  return list[list.size() == 1 ? 0 : instance];
}

class Unpacker {
 public:
  explicit Unpacker(const pb::PackedProgram& packed) : packed_(packed) { CountTables(); }

  absl::StatusOr<pb::Program> Run() {
    pb::Program program = packed_.head();
    if (program.variables_size() > 0 || program.plans_size() > 0) return Bad("its head has variables or plans");
    for (const pb::PackedVariable& variable : packed_.variables()) {
      OF_RETURN_IF_ERROR(UnpackVariable(variable, *program.add_variables()));
    }
    for (const pb::PackedPlan& plan : packed_.plans()) OF_RETURN_IF_ERROR(UnpackPlan(plan, *program.add_plans()));
    return program;
  }

 private:
  // Counts parts before they are made: `parts` of each of so many instances.
  absl::Status Take(int64_t parts, int64_t instances) {
    if (parts <= kMaxProgramParts) parts_ += parts * instances;
    if (parts <= kMaxProgramParts && parts_ <= kMaxProgramParts) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("packed program: unpacked it has more than ", kMaxProgramParts, " parts"));
  }

  // What one use of an entry of a table makes; an index out of range is found later.
  static int64_t At(const std::vector<int64_t>& parts, int index) {
    return index >= 0 && index < static_cast<int>(parts.size()) ? parts[index] : 1;
  }

  void CountTables() {
    for (const std::string& text : packed_.texts()) texts_.push_back(1 + static_cast<int64_t>(text.size()) / 64);
    for (const pb::PackedAttributes& entry : packed_.attributes()) {
      attributes_.push_back(1 + entry.list_size() + static_cast<int64_t>(entry.ByteSizeLong()) / 8);
    }
    for (const pb::PackedShape& shape : packed_.shapes()) {
      int most = 0;
      for (const pb::PackedBox& box : shape.boxes()) most = std::max(most, box.start_size() + box.extent_size());
      shapes_.push_back(1 + shape.logical_dims_size() + most);
    }
    for (const pb::PackedMoves& moves : packed_.moves()) {
      moves_.push_back(1 + moves.transfers_size());
      for (const pb::Piece& piece : moves.pieces()) moves_.back() += 1 + 3 * int64_t{piece.extent_size()};
    }
  }

  int64_t PartsOf(const pb::PackedInstruction& x) const {
    int64_t parts = 1 + At(attributes_, x.attributes()), moves = 0;
    for (const int text : {x.op(), x.node(), x.source(), x.collective()}) parts += At(texts_, text);
    for (const int index : x.moves()) moves = std::max(moves, At(moves_, index));
    for (const pb::PackedOperand& operand : x.inputs()) parts += At(shapes_, operand.shape());
    for (const pb::PackedOperand& operand : x.outputs()) parts += At(shapes_, operand.shape());
    return parts + moves;
  }
  // Of one instance; it stops counting where it is too much.
  int64_t PartsOf(const pb::PackedActors& actors) const {
    int64_t parts = At(texts_, actors.name()) + actors.input_acts_size() + actors.output_acts_size() +
                    actors.parts_size() + actors.crosses_size();
    for (const pb::PackedInstruction& instruction : actors.instructions()) {
      if (parts > kMaxProgramParts) break;
      parts += PartsOf(instruction);
    }
    return parts;
  }

  absl::Status Text(int index, std::string* out) {
    OF_RETURN_IF_ERROR(CheckIndex("text", index, packed_.texts_size()));
    *out = packed_.texts(index);
    return absl::OkStatus();
  }

  absl::StatusOr<const pb::PackedShape*> ShapeOf(int index, int instances) const {
    OF_RETURN_IF_ERROR(CheckIndex("shape", index, packed_.shapes_size()));
    const pb::PackedShape& shape = packed_.shapes(index);
    OF_RETURN_IF_ERROR(CheckPerInstance("boxes", shape.boxes(), instances));
    return &shape;
  }

  absl::Status UnpackVariable(const pb::PackedVariable& variable, pb::Variable& out) {
    OF_RETURN_IF_ERROR(Text(variable.name(), out.mutable_name()));
    OF_RETURN_IF_ERROR(Text(variable.init(), out.mutable_init()));
    out.set_role(variable.role());
    out.set_own(variable.own());
    const int shards = variable.ranks_size();
    OF_ASSIGN_OR_RETURN(const pb::PackedShape* const shape, ShapeOf(variable.shape(), shards));
    OF_RETURN_IF_ERROR(CheckCount("zones", variable.zones_size(), shards));
    OF_RETURN_IF_ERROR(CheckCount("offsets", variable.offsets_size(), shards));
    OF_RETURN_IF_ERROR(CheckCount("owners", variable.owners_size(), shards));
    OF_RETURN_IF_ERROR(Take(At(shapes_, variable.shape()), 1 + shards));
    out.set_dtype(shape->dtype());
    *out.mutable_dims() = shape->logical_dims();
    for (int i = 0; i < shards; ++i) {
      const pb::PackedBox& box = Of(shape->boxes(), i);
      pb::Shard& shard = *out.add_shards();
      shard.set_rank(variable.ranks(i));
      *shard.mutable_start() = box.start();
      *shard.mutable_extent() = box.extent();
      shard.set_zone(variable.zones(i));
      shard.set_offset(variable.offsets(i));
      shard.set_owner(variable.owners(i));
    }
    return absl::OkStatus();
  }

  absl::Status UnpackPlan(const pb::PackedPlan& plan, pb::Plan& out) {
    out = plan.head();
    if (out.actors_size() > 0 || out.registers_size() > 0) return Bad("the head of a plan has actors or registers");
    for (const pb::PackedActors& actors : plan.actors()) {
      OF_RETURN_IF_ERROR(Take(PartsOf(actors), actors.ids_size()));
      for (int i = 0; i < actors.ids_size(); ++i) OF_RETURN_IF_ERROR(UnpackActor(actors, i, *out.add_actors()));
    }
    for (const pb::PackedRegisters& registers : plan.registers()) OF_RETURN_IF_ERROR(UnpackRegisters(registers, out));
    return absl::OkStatus();
  }

  absl::Status UnpackActor(const pb::PackedActors& actors, int instance, pb::Actor& out) {
    const int inputs = actors.input_acts_size(), ports = inputs + actors.output_acts_size();
    OF_RETURN_IF_ERROR(CheckCount("ranks", actors.ranks_size(), actors.ids_size()));
    OF_RETURN_IF_ERROR(CheckCount("registers", actors.registers_size(), int64_t{ports} * actors.ids_size()));
    OF_RETURN_IF_ERROR(Text(actors.name(), out.mutable_name()));
    out.set_id(actors.ids(instance));
    out.set_rank(actors.ranks(instance));
    CopyActorFacts(actors, out);
    if (actors.landings_size() > 0) {
      OF_RETURN_IF_ERROR(CheckCount("landings", actors.landings_size(), actors.ids_size()));
      *out.mutable_landings() = actors.landings(instance).list();
    }
    for (int p = 0; p < ports; ++p) {
      pb::Port& port = p < inputs ? *out.add_inputs() : *out.add_outputs();
      port.set_register_(actors.registers(instance * ports + p));
      port.set_acts_per_slot(p < inputs ? actors.input_acts(p) : actors.output_acts(p - inputs));
    }
    for (const pb::PackedInstruction& instruction : actors.instructions()) {
      OF_RETURN_IF_ERROR(UnpackInstruction(instruction, actors, instance, *out.add_instructions()));
    }
    return absl::OkStatus();
  }

  absl::Status UnpackInstruction(const pb::PackedInstruction& x, const pb::PackedActors& actors, int instance,
                                 pb::Instruction& out) {
    CopyInstructionFacts(x, out);
    OF_RETURN_IF_ERROR(Text(x.op(), out.mutable_op()));
    OF_RETURN_IF_ERROR(Text(x.node(), out.mutable_node()));
    OF_RETURN_IF_ERROR(Text(x.source(), out.mutable_source()));
    OF_RETURN_IF_ERROR(Text(x.collective(), out.mutable_collective()));
    OF_RETURN_IF_ERROR(CheckIndex("attributes", x.attributes(), packed_.attributes_size()));
    *out.mutable_attributes() = packed_.attributes(x.attributes()).list();
    OF_RETURN_IF_ERROR(CheckPerInstance("communicators", x.communicators(), actors.ids_size()));
    out.set_communicator(Of(x.communicators(), instance));
    OF_RETURN_IF_ERROR(UnpackMoves(x, actors.ids_size(), instance, out));
    for (const pb::PackedOperand& operand : x.inputs()) {
      OF_RETURN_IF_ERROR(UnpackOperand(operand, actors, instance, *out.add_inputs()));
    }
    for (const pb::PackedOperand& operand : x.outputs()) {
      OF_RETURN_IF_ERROR(UnpackOperand(operand, actors, instance, *out.add_outputs()));
    }
    return absl::OkStatus();
  }

  absl::Status UnpackMoves(const pb::PackedInstruction& x, int instances, int instance, pb::Instruction& out) {
    OF_RETURN_IF_ERROR(CheckPerInstance("moves", x.moves(), instances));
    const int index = Of(x.moves(), instance);
    OF_RETURN_IF_ERROR(CheckIndex("moves", index, packed_.moves_size()));
    *out.mutable_pieces() = packed_.moves(index).pieces();
    *out.mutable_transfers() = packed_.moves(index).transfers();
    return absl::OkStatus();
  }

  absl::Status UnpackOperand(const pb::PackedOperand& x, const pb::PackedActors& actors, int instance,
                             pb::Operand& out) {
    const int ports = actors.input_acts_size() + actors.output_acts_size();
    OF_RETURN_IF_ERROR(CheckIndex("port", x.port(), ports + 1));
    OF_ASSIGN_OR_RETURN(const pb::PackedShape* const shape, ShapeOf(x.shape(), actors.ids_size()));
    const pb::PackedBox& box = Of(shape->boxes(), instance);
    out.set_register_(x.port() == 0 ? -1 : actors.registers(instance * ports + x.port() - 1));
    out.set_zone(x.zone());
    out.set_offset(x.offset());
    out.set_landed(x.landed());
    out.set_dtype(shape->dtype());
    out.set_ragged(shape->ragged());
    out.set_layout(shape->layout());
    *out.mutable_logical_dims() = shape->logical_dims();
    *out.mutable_start() = box.start();
    *out.mutable_dims() = box.extent();
    return absl::OkStatus();
  }

  absl::Status UnpackRegisters(const pb::PackedRegisters& registers, pb::Plan& plan) {
    const int instances = registers.ids_size();
    OF_RETURN_IF_ERROR(CheckCount("producers", registers.producers_size(), instances));
    OF_RETURN_IF_ERROR(CheckCount("numbers of consumers", registers.num_consumers_size(), instances));
    OF_RETURN_IF_ERROR(CheckPerInstance("offsets", registers.offsets(), instances));
    OF_RETURN_IF_ERROR(Take(1 + static_cast<int64_t>(registers.like().ByteSizeLong()) / 8, instances));
    int64_t next = 0;
    for (int i = 0; i < instances; ++i) {
      pb::Register& out = *plan.add_registers();
      out = registers.like();
      out.set_id(registers.ids(i));
      out.set_producer(registers.producers(i));
      out.set_offset(Of(registers.offsets(), i));
      const int64_t end = next + registers.num_consumers(i);
      if (end < next || end > registers.consumers_size()) return Bad("consumers end at ", registers.consumers_size());
      for (; next < end; ++next) out.add_consumers(registers.consumers(static_cast<int>(next)));
    }
    return CheckCount("consumers", registers.consumers_size(), next);
  }

  const pb::PackedProgram& packed_;
  std::vector<int64_t> texts_, attributes_, shapes_, moves_;  // parts of the tables' entries
  int64_t parts_ = 0;
};

}  // namespace

absl::StatusOr<pb::Program> UnpackProgram(const pb::PackedProgram& packed) { return Unpacker(packed).Run(); }

}  // namespace oneflow
