#include "tools/job/packed_program.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace oneflow {
namespace {

template <typename Message>
using Repeated = google::protobuf::RepeatedPtrField<Message>;

// --- packing ----------------------------------------------------------------------------------------------------------------

// Numbers what repeats.
template <typename Message>
class Table {
 public:
  explicit Table(Repeated<Message>& entries) : entries_(entries) {}
  int Add(Message entry) {
    const auto [it, is_new] = numbers_.try_emplace(entry.SerializeAsString(), entries_.size());
    if (is_new) *entries_.Add() = std::move(entry);
    return it->second;
  }

 private:
  Repeated<Message>& entries_;
  absl::flat_hash_map<std::string, int> numbers_;
};

class Texts {
 public:
  explicit Texts(Repeated<std::string>& entries) : entries_(entries) {}
  int Add(const std::string& text) {
    const auto [it, is_new] = numbers_.try_emplace(text, entries_.size());
    if (is_new) *entries_.Add() = text;
    return it->second;
  }

 private:
  Repeated<std::string>& entries_;
  absl::flat_hash_map<std::string, int> numbers_;
};

// Writes what the instances have: once if it is the same.
template <typename T>
void AddPerInstance(const std::vector<T>& values, google::protobuf::RepeatedField<T>* out) {
  const bool same = std::all_of(values.begin(), values.end(), [&](const T& x) { return x == values[0]; });
  out->Add(values.begin(), same ? values.begin() + 1 : values.end());
}

bool SameActs(const Repeated<pb::Port>& a, const Repeated<pb::Port>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const pb::Port& x, const pb::Port& y) { return x.acts_per_slot() == y.acts_per_slot(); });
}

// Ports of registers of one actor, found by number.
class Ports {
 public:
  explicit Ports(const pb::Actor& actor) {
    int port = 0;
    for (const pb::Port& x : actor.inputs()) numbers_.try_emplace(x.register_(), ++port);
    for (const pb::Port& x : actor.outputs()) numbers_.try_emplace(x.register_(), ++port);
  }
  // 0: fixed memory. -1: no port, so that unpacking refuses it; no program has that but one of a malformed plan.
  int Of(const pb::Operand& x) const {
    if (x.register_() < 0) return 0;
    const auto it = numbers_.find(x.register_());
    return it == numbers_.end() ? -1 : it->second;
  }

 private:
  absl::flat_hash_map<int, int> numbers_;
};

bool AlikeOperands(const Repeated<pb::Operand>& a, const Ports& a_ports, const Repeated<pb::Operand>& b,
                   const Ports& b_ports) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const pb::Operand& x, const pb::Operand& y) {
    return a_ports.Of(x) == b_ports.Of(y) && x.zone() == y.zone() && x.offset() == y.offset() &&
           x.dtype() == y.dtype() &&
           std::equal(x.logical_dims().begin(), x.logical_dims().end(), y.logical_dims().begin(),
                      y.logical_dims().end());
  });
}

bool AlikeAttributes(const Repeated<pb::Attribute>& a, const Repeated<pb::Attribute>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const pb::Attribute& x, const pb::Attribute& y) {
    return x.SerializeAsString() == y.SerializeAsString();
  });
}

bool AlikeInstructions(const pb::Instruction& a, const Ports& a_ports, const pb::Instruction& b, const Ports& b_ports) {
  return a.kind() == b.kind() && a.node() == b.node() && a.op() == b.op() && a.source() == b.source() &&
         a.zero_fill() == b.zero_fill() && a.reduce() == b.reduce() && a.collective() == b.collective() &&
         AlikeOperands(a.inputs(), a_ports, b.inputs(), b_ports) &&
         AlikeOperands(a.outputs(), a_ports, b.outputs(), b_ports) && AlikeAttributes(a.attributes(), b.attributes());
}

bool AlikeActors(const pb::Actor& a, const Ports& a_ports, const pb::Actor& b, const Ports& b_ports) {
  if (a.name() != b.name() || a.acts_per_step() != b.acts_per_step() || a.priority() != b.priority()) return false;
  if (!SameActs(a.inputs(), b.inputs()) || !SameActs(a.outputs(), b.outputs())) return false;
  return std::equal(
      a.instructions().begin(), a.instructions().end(), b.instructions().begin(), b.instructions().end(),
      [&](const pb::Instruction& x, const pb::Instruction& y) { return AlikeInstructions(x, a_ports, y, b_ports); });
}

class Packer {
 public:
  explicit Packer(const pb::Program& program)
      : program_(program),
        texts_(*packed_.mutable_texts()),
        attributes_(*packed_.mutable_attributes()),
        shapes_(*packed_.mutable_shapes()),
        moves_(*packed_.mutable_moves()) {}

  pb::PackedProgram Run() {
    PackHead();
    for (const pb::Variable& variable : program_.variables()) PackVariable(variable, *packed_.add_variables());
    for (const pb::Plan& plan : program_.plans()) PackPlan(plan, *packed_.add_plans());
    return std::move(packed_);
  }

 private:
  void PackHead() {
    pb::Program& head = *packed_.mutable_head();
    head.set_version(program_.version());
    head.set_job(program_.job());
    *head.mutable_ranks() = program_.ranks();
    *head.mutable_communicators() = program_.communicators();
    head.set_seed(program_.seed());
    if (program_.has_process()) head.set_process(program_.process());
    head.set_plan_hash(program_.plan_hash());
  }

  void PackVariable(const pb::Variable& variable, pb::PackedVariable& out) {
    out.set_name(texts_.Add(variable.name()));
    out.set_init(texts_.Add(variable.init()));
    out.set_trainable(variable.trainable());
    pb::PackedShape shape;
    shape.set_dtype(variable.dtype());
    *shape.mutable_logical_dims() = variable.dims();
    for (const pb::Shard& shard : variable.shards()) {
      pb::PackedBox& box = *shape.add_boxes();
      *box.mutable_start() = shard.start();
      *box.mutable_extent() = shard.extent();
      out.add_ranks(shard.rank());
      out.add_zones(shard.zone());
      out.add_offsets(shard.offset());
      out.add_owners(shard.owner());
    }
    out.set_shape(AddShape(std::move(shape)));
  }

  int AddShape(pb::PackedShape shape) {
    const auto same = [&](const pb::PackedBox& box) {
      return box.SerializeAsString() == shape.boxes(0).SerializeAsString();
    };
    if (std::all_of(shape.boxes().begin(), shape.boxes().end(), same) && shape.boxes_size() > 1) {
      shape.mutable_boxes()->DeleteSubrange(1, shape.boxes_size() - 1);
    }
    return shapes_.Add(std::move(shape));
  }

  void PackPlan(const pb::Plan& plan, pb::PackedPlan& out) {
    pb::Plan& head = *out.mutable_head();
    head.set_name(plan.name());
    head.set_micro_batches(plan.micro_batches());
    *head.mutable_collective_orders() = plan.collective_orders();
    for (int first = 0, end = 0; first < plan.actors_size(); first = end) {
      const Ports ports(plan.actors(first));
      for (end = first + 1; end < plan.actors_size(); ++end) {
        if (!AlikeActors(plan.actors(first), ports, plan.actors(end), Ports(plan.actors(end)))) break;
      }
      PackActors(plan, first, end, ports, *out.add_actors());
    }
    for (int first = 0, end = 0; first < plan.registers_size(); first = end) {
      const std::string like = LikeOf(plan.registers(first)).SerializeAsString();
      for (end = first + 1; end < plan.registers_size(); ++end) {
        if (LikeOf(plan.registers(end)).SerializeAsString() != like) break;
      }
      PackRegisters(plan, first, end, *out.add_registers());
    }
  }

  void PackActors(const pb::Plan& plan, int first, int end, const Ports& ports, pb::PackedActors& out) {
    const pb::Actor& like = plan.actors(first);
    out.set_name(texts_.Add(like.name()));
    out.set_acts_per_step(like.acts_per_step());
    out.set_priority(like.priority());
    for (const pb::Port& port : like.inputs()) out.add_input_acts(port.acts_per_slot());
    for (const pb::Port& port : like.outputs()) out.add_output_acts(port.acts_per_slot());
    for (int a = first; a < end; ++a) {
      out.add_ids(plan.actors(a).id());
      out.add_ranks(plan.actors(a).rank());
      for (const pb::Port& port : plan.actors(a).inputs()) out.add_registers(port.register_());
      for (const pb::Port& port : plan.actors(a).outputs()) out.add_registers(port.register_());
    }
    for (int i = 0; i < like.instructions_size(); ++i) {
      std::vector<const pb::Instruction*> instances;
      for (int a = first; a < end; ++a) instances.push_back(&plan.actors(a).instructions(i));
      PackInstruction(instances, ports, *out.add_instructions());
    }
  }

  void PackInstruction(const std::vector<const pb::Instruction*>& instances, const Ports& ports,
                       pb::PackedInstruction& out) {
    const pb::Instruction& like = *instances[0];
    out.set_kind(like.kind());
    out.set_op(texts_.Add(like.op()));
    out.set_node(texts_.Add(like.node()));
    out.set_source(texts_.Add(like.source()));
    out.set_collective(texts_.Add(like.collective()));
    out.set_zero_fill(like.zero_fill());
    out.set_reduce(like.reduce());
    pb::PackedAttributes attributes;
    *attributes.mutable_list() = like.attributes();
    out.set_attributes(attributes_.Add(std::move(attributes)));
    std::vector<int32_t> moves, communicators;
    for (const pb::Instruction* const instance : instances) {
      pb::PackedMoves move;
      *move.mutable_pieces() = instance->pieces();
      *move.mutable_transfers() = instance->transfers();
      moves.push_back(moves_.Add(std::move(move)));
      communicators.push_back(instance->communicator());
    }
    AddPerInstance(moves, out.mutable_moves());
    AddPerInstance(communicators, out.mutable_communicators());
    for (int i = 0; i < like.inputs_size(); ++i) {
      PackOperand(
          instances, ports, [i](const pb::Instruction& x) -> const pb::Operand& { return x.inputs(i); },
          *out.add_inputs());
    }
    for (int i = 0; i < like.outputs_size(); ++i) {
      PackOperand(
          instances, ports, [i](const pb::Instruction& x) -> const pb::Operand& { return x.outputs(i); },
          *out.add_outputs());
    }
  }

  template <typename Get>
  void PackOperand(const std::vector<const pb::Instruction*>& instances, const Ports& ports, Get&& get,
                   pb::PackedOperand& out) {
    const pb::Operand& like = get(*instances[0]);
    out.set_port(ports.Of(like));
    out.set_zone(like.zone());
    out.set_offset(like.offset());
    pb::PackedShape shape;
    shape.set_dtype(like.dtype());
    *shape.mutable_logical_dims() = like.logical_dims();
    for (const pb::Instruction* const instance : instances) {
      pb::PackedBox& box = *shape.add_boxes();
      *box.mutable_start() = get(*instance).start();
      *box.mutable_extent() = get(*instance).dims();
    }
    out.set_shape(AddShape(std::move(shape)));
  }

  // What registers of a group have in common.
  static pb::Register LikeOf(const pb::Register& reg) {
    pb::Register like;
    like.set_slots(reg.slots());
    like.set_initially_filled(reg.initially_filled());
    like.set_zone(reg.zone());
    like.set_slot_bytes(reg.slot_bytes());
    like.set_slot_stride(reg.slot_stride());
    like.set_name(reg.name());
    return like;
  }

  static void PackRegisters(const pb::Plan& plan, int first, int end, pb::PackedRegisters& out) {
    *out.mutable_like() = LikeOf(plan.registers(first));
    std::vector<int64_t> offsets;
    for (int r = first; r < end; ++r) {
      const pb::Register& reg = plan.registers(r);
      out.add_ids(reg.id());
      out.add_producers(reg.producer());
      offsets.push_back(reg.offset());
      out.add_num_consumers(reg.consumers_size());
      out.mutable_consumers()->Add(reg.consumers().begin(), reg.consumers().end());
    }
    AddPerInstance(offsets, out.mutable_offsets());
  }

  const pb::Program& program_;
  pb::PackedProgram packed_;
  Texts texts_;
  Table<pb::PackedAttributes> attributes_;
  Table<pb::PackedShape> shapes_;
  Table<pb::PackedMoves> moves_;
};

// --- unpacking --------------------------------------------------------------------------------------------------------------

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
    int64_t parts = At(texts_, actors.name()) + actors.input_acts_size() + actors.output_acts_size();
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
    out.set_trainable(variable.trainable());
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
      shard.set_zone(static_cast<pb::Zone>(variable.zones(i)));
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
    out.set_acts_per_step(actors.acts_per_step());
    out.set_priority(actors.priority());
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
    out.set_kind(x.kind());
    OF_RETURN_IF_ERROR(Text(x.op(), out.mutable_op()));
    OF_RETURN_IF_ERROR(Text(x.node(), out.mutable_node()));
    OF_RETURN_IF_ERROR(Text(x.source(), out.mutable_source()));
    OF_RETURN_IF_ERROR(Text(x.collective(), out.mutable_collective()));
    out.set_zero_fill(x.zero_fill());
    out.set_reduce(x.reduce());
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
    out.set_dtype(shape->dtype());
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

pb::PackedProgram PackProgram(const pb::Program& program) { return Packer(program).Run(); }

absl::StatusOr<pb::Program> UnpackProgram(const pb::PackedProgram& packed) { return Unpacker(packed).Run(); }

}  // namespace oneflow
