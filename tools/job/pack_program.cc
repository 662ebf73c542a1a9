#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/lower/actor_facts.h"
#include "tools/job/packed_program.h"

namespace oneflow {
namespace {

template <typename Message>
using Repeated = google::protobuf::RepeatedPtrField<Message>;

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
           x.dtype() == y.dtype() && x.ragged() == y.ragged() && x.layout() == y.layout() && x.landed() == y.landed() &&
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
         a.zero_fill() == b.zero_fill() && a.by_counts() == b.by_counts() && a.reduce() == b.reduce() &&
         a.collective() == b.collective() && a.scratch_offset() == b.scratch_offset() &&
         a.scratch_bytes() == b.scratch_bytes() && a.group() == b.group() &&
         AlikeOperands(a.inputs(), a_ports, b.inputs(), b_ports) &&
         AlikeOperands(a.outputs(), a_ports, b.outputs(), b_ports) && AlikeAttributes(a.attributes(), b.attributes());
}

bool AlikeParts(const google::protobuf::RepeatedPtrField<pb::ActorPart>& a,
                const google::protobuf::RepeatedPtrField<pb::ActorPart>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const pb::ActorPart& x, const pb::ActorPart& y) {
    return x.section() == y.section() && x.chunk() == y.chunk() && x.ns() == y.ns();
  });
}

bool AlikeActors(const pb::Actor& a, const Ports& a_ports, const pb::Actor& b, const Ports& b_ports) {
  if (a.name() != b.name() || a.acts_per_step() != b.acts_per_step() || a.priority() != b.priority() ||
      a.queue() != b.queue() || a.section() != b.section() || a.chunk() != b.chunk()) {
    return false;
  }
  if (!AlikeParts(a.parts(), b.parts()) ||
      !std::equal(a.crosses().begin(), a.crosses().end(), b.crosses().begin(), b.crosses().end())) {
    return false;
  }
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
    head.set_tf32(program_.tf32());
    *head.mutable_plugins() = program_.plugins();
    if (program_.has_process()) head.set_process(program_.process());
    head.set_plan_hash(program_.plan_hash());
  }

  void PackVariable(const pb::Variable& variable, pb::PackedVariable& out) {
    out.set_name(texts_.Add(variable.name()));
    out.set_init(texts_.Add(variable.init()));
    out.set_role(variable.role());
    out.set_own(variable.own());
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
    head.set_beside(plan.beside());
    *head.mutable_orders() = plan.orders();
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
    CopyActorFacts(like, out);
    for (const pb::Port& port : like.inputs()) out.add_input_acts(port.acts_per_slot());
    for (const pb::Port& port : like.outputs()) out.add_output_acts(port.acts_per_slot());
    for (int a = first; a < end; ++a) {
      out.add_ids(plan.actors(a).id());
      out.add_ranks(plan.actors(a).rank());
      for (const pb::Port& port : plan.actors(a).inputs()) out.add_registers(port.register_());
      for (const pb::Port& port : plan.actors(a).outputs()) out.add_registers(port.register_());
      *out.add_landings()->mutable_list() = plan.actors(a).landings();
    }
    const bool some = std::any_of(out.landings().begin(), out.landings().end(),
                                  [](const pb::PackedLandings& x) { return x.list_size() > 0; });
    if (!some) out.clear_landings();
    for (int i = 0; i < like.instructions_size(); ++i) {
      std::vector<const pb::Instruction*> instances;
      for (int a = first; a < end; ++a) instances.push_back(&plan.actors(a).instructions(i));
      PackInstruction(instances, ports, *out.add_instructions());
    }
  }

  void PackInstruction(const std::vector<const pb::Instruction*>& instances, const Ports& ports,
                       pb::PackedInstruction& out) {
    const pb::Instruction& like = *instances[0];
    CopyInstructionFacts(like, out);
    out.set_op(texts_.Add(like.op()));
    out.set_node(texts_.Add(like.node()));
    out.set_source(texts_.Add(like.source()));
    out.set_collective(texts_.Add(like.collective()));
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
    out.set_landed(like.landed());
    pb::PackedShape shape;
    shape.set_dtype(like.dtype());
    shape.set_ragged(like.ragged());
    shape.set_layout(like.layout());
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
    CopyRegisterFacts(reg, like);
    *like.mutable_shipments() = reg.shipments();
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

}  // namespace

pb::PackedProgram PackProgram(const pb::Program& program) { return Packer(program).Run(); }

}  // namespace oneflow
