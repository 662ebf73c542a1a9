#include "compiler/lower/program_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/lower/zones_text.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/memory_layout.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/variable_role.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

DType TypeOf(pb::DType dtype) { return static_cast<DType>(dtype); }

template <typename Ints>
std::string List(const Ints& values) {
  return absl::StrCat("[", absl::StrJoin(values, ","), "]");
}

int64_t Product(const google::protobuf::RepeatedField<int64_t>& values) {
  int64_t product = 1;
  for (int64_t value : values) product *= value;
  return product;
}

int64_t Elements(const google::protobuf::RepeatedPtrField<pb::Operand>& operands) {
  return operands.empty() ? 0 : Product(operands[0].dims());
}

// The data that a member of a collective takes from the others, on any way: of an all-gather all but its own part, of a
// reduce-scatter the others' addends.
int64_t BytesReceivedBy(const pb::Instruction& instruction) {
  if (instruction.outputs().empty()) return 0;
  const int64_t in = Elements(instruction.inputs()), out = Elements(instruction.outputs());
  int64_t elements = 0;
  if (instruction.collective() == "exchange") {
    for (const pb::Transfer& transfer : instruction.transfers()) elements += transfer.receive_count();
  } else if (instruction.collective() == "all-reduce") {
    elements = out;
  } else {
    elements = instruction.collective() == "reduce-scatter" ? in - out : out - in;
  }
  return elements * static_cast<int64_t>(SizeOf(TypeOf(instruction.outputs(0).dtype())));
}

// The bytes that one act of the instruction reads from other ranks.
int64_t BytesMovedBy(const pb::Plan& plan, const pb::Actor& actor, const pb::Instruction& instruction) {
  if (instruction.kind() == pb::Instruction::COLLECTIVE) return BytesReceivedBy(instruction);
  int64_t bytes = 0;
  for (const pb::Piece& piece : instruction.pieces()) {
    const pb::Operand& source = instruction.inputs(piece.input());
    if (source.register_() < 0) continue;
    if (plan.actors(plan.registers(source.register_()).producer()).rank() == actor.rank()) continue;
    bytes += Product(piece.extent()) * static_cast<int64_t>(SizeOf(TypeOf(source.dtype())));
  }
  return bytes;
}

int64_t RegisterBytes(const pb::Register& reg) { return reg.slots() * reg.slot_stride(); }

std::string Show(const pb::Operand& x) {
  std::string text =
      absl::StrCat(Name(TypeOf(x.dtype())), List(x.dims()), Suffix(static_cast<MemoryLayout>(x.layout())));
  if (!std::equal(x.dims().begin(), x.dims().end(), x.logical_dims().begin(), x.logical_dims().end())) {
    absl::StrAppend(&text, " of ", List(x.logical_dims()), " at ", List(x.start()));
  }
  if (x.register_() >= 0) {
    absl::StrAppend(&text, x.landed() ? "@landed r" : "@r", x.register_());
    if (x.offset() > 0) absl::StrAppend(&text, "+", x.offset());
  } else {
    absl::StrAppend(&text, "@", ZoneName(x.zone()), "+", x.offset());
  }
  return text;
}

std::string ShowPorts(const google::protobuf::RepeatedPtrField<pb::Port>& ports) {
  return absl::StrJoin(ports, " ", [](std::string* out, const pb::Port& port) {
    absl::StrAppend(out, "r", port.register_());
    if (port.acts_per_slot() > 1) absl::StrAppend(out, "/", port.acts_per_slot());
  });
}

std::string Show(const pb::Plan& plan, const pb::Actor& actor, const pb::Instruction& instruction) {
  const auto operands = [](const google::protobuf::RepeatedPtrField<pb::Operand>& list) {
    return absl::StrJoin(list, ", ", [](std::string* out, const pb::Operand& x) { out->append(Show(x)); });
  };
  std::string text = absl::StrCat("      ", instruction.op(), " '", instruction.node(), "' (",
                                  operands(instruction.inputs()), ") -> (", operands(instruction.outputs()), ")");
  if (instruction.kind() == pb::Instruction::COPY) {
    absl::StrAppend(&text, " pieces=", instruction.pieces_size(), " moves=", BytesMovedBy(plan, actor, instruction),
                    instruction.zero_fill() ? " zero_fill" : "");
  }
  if (instruction.kind() == pb::Instruction::COLLECTIVE) {
    absl::StrAppend(&text, " ", instruction.collective(), " communicator=", instruction.communicator(),
                    instruction.group() > 0 ? absl::StrCat(" group=", instruction.group()) : "",
                    " moves=", BytesMovedBy(plan, actor, instruction));
    for (const pb::Transfer& transfer : instruction.transfers()) {
      absl::StrAppend(&text, " [", transfer.peer(), "] sends ", transfer.send_count(), "@", transfer.send_offset(),
                      " receives ", transfer.receive_count(), "@", transfer.receive_offset());
    }
  }
  if (!instruction.source().empty()) absl::StrAppend(&text, "  # ", instruction.source());
  return text + "\n";
}

void ShowActor(const pb::Plan& plan, int id, std::string& out) {
  const pb::Actor& actor = plan.actors(id);
  absl::StrAppend(&out, "    a", id, " rank ", actor.rank(), " '", actor.name(), "' acts=", actor.acts_per_step(),
                  " queue=", QueueName(actor.queue()), " priority=", actor.priority(),
                  " in: ", ShowPorts(actor.inputs()), " out: ", ShowPorts(actor.outputs()), "\n");
  for (const pb::Instruction& instruction : actor.instructions()) out += Show(plan, actor, instruction);
}

void ShowRegister(const pb::Plan& plan, int id, std::string& out) {
  const pb::Register& reg = plan.registers(id);
  absl::StrAppend(&out, "    r", id, " rank ", plan.actors(reg.producer()).rank(), " '", reg.name(), "' a",
                  reg.producer(), " -> a", absl::StrJoin(reg.consumers(), " a"), " slots=", reg.slots());
  if (reg.initially_filled() > 0) absl::StrAppend(&out, " filled=", reg.initially_filled());
  absl::StrAppend(&out, " bytes=", reg.slot_bytes());
  if (reg.slot_bytes() > 0) absl::StrAppend(&out, " ", ZoneName(reg.zone()), "+", reg.offset());
  absl::StrAppend(&out, "\n");
}

// The scratch memory for the acts of one rank beyond variables and registers.
struct Workspace {
  int64_t end = 0;    // the last byte of any operand
  int64_t bound = 0;  // the most that is alive at once: no packing could do with less
};

// Follows the fixed operands of one actor that lie behind the variables. A tensor lives from the instruction that
// writes it to its last reader; an output in the place of an input that ends there continues its life.
void AddActs(const pb::Actor& actor, int64_t variable_bytes, Workspace& workspace) {
  struct Tensor {
    int64_t begin, end;
    int first, last;
  };
  std::vector<Tensor> tensors;
  const auto visit = [&](const pb::Operand& x, int at, bool write) {
    if (x.register_() >= 0 || x.zone() != kWorkZone || x.offset() < variable_bytes) return;
    const int64_t end = x.offset() + Product(x.dims()) * static_cast<int64_t>(SizeOf(TypeOf(x.dtype())));
    workspace.end = std::max(workspace.end, end);
    const auto same = std::find_if(tensors.rbegin(), tensors.rend(), [&](const Tensor& t) {
      return t.begin < end && x.offset() < t.end;  // whoever was there last
    });
    const bool goes_on = same != tensors.rend() && same->begin == x.offset() && same->end == end;
    if (goes_on && (!write || same->last == at)) {
      same->last = at;
    } else {
      tensors.push_back({x.offset(), end, at, at});
    }
  };
  for (int at = 0; at < actor.instructions_size(); ++at) {
    for (const pb::Operand& x : actor.instructions(at).inputs()) visit(x, at, false);
    for (const pb::Operand& x : actor.instructions(at).outputs()) visit(x, at, true);
  }
  std::vector<int64_t> change(actor.instructions_size() + 1, 0);
  for (const Tensor& t : tensors) {
    change[t.first] += t.end - t.begin;
    change[t.last + 1] -= t.end - t.begin;
  }
  int64_t alive = 0;
  for (int64_t delta : change) workspace.bound = std::max(workspace.bound, alive += delta);
}

// "private 4096, shared 0"; of tiers those that have any.
std::string RegistersText(const std::array<int64_t, kNumZones>& bytes) {
  std::string out;
  for (const ZoneKind& kind : kZones) {
    if (!kind.of_device && bytes[kind.zone] == 0) continue;
    absl::StrAppend(&out, out.empty() ? "" : ", ", kind.name, " ", bytes[kind.zone]);
  }
  return out;
}

void ShowRanks(const pb::Program& set, std::string& out) {
  for (int r = 0; r < set.ranks_size(); ++r) {
    const pb::Rank& rank = set.ranks(r);
    absl::StrAppend(&out, "rank ", r, " process ", rank.process(), " ", rank.device(), ": ", ZonesText(rank), "\n");
    const int64_t variables = VariableBytesOfZone(rank, kWorkZone);
    for (const pb::Plan& plan : set.plans()) {
      std::array<int64_t, kNumZones> registers{};
      for (const pb::Register& reg : plan.registers()) {
        if (plan.actors(reg.producer()).rank() == r && IsZone(reg.zone())) registers[reg.zone()] += RegisterBytes(reg);
      }
      Workspace workspace{variables + registers[kWorkZone], 0};
      const int64_t begin = workspace.end;
      for (const pb::Actor& actor : plan.actors()) {
        if (actor.rank() == r) AddActs(actor, variables, workspace);
      }
      absl::StrAppend(&out, "  plan '", plan.name(), "': registers ", RegistersText(registers), ", workspace ",
                      workspace.end - begin, " (at least ", workspace.bound, ") bytes\n");
    }
  }
}

// How often a register is filled.
int64_t SlotsPerStep(const pb::Plan& plan, int reg) {
  const pb::Actor& producer = plan.actors(plan.registers(reg).producer());
  const auto port = std::find_if(producer.outputs().begin(), producer.outputs().end(),
                                 [reg](const pb::Port& x) { return x.register_() == reg; });
  return producer.acts_per_step() / port->acts_per_slot();
}

// What goes `times` for a shipment. Pieces hold what has no gap in it.
void Add(const pb::Shipment& shipment, int64_t times, HostTraffic& traffic) {
  int64_t pieces = 0, begin = 0, end = 0;  // of bytes without a gap
  const auto cut = [&] { pieces += (end - begin + kPayloadPieceBytes - 1) / kPayloadPieceBytes; };
  for (const pb::Parcel& parcel : shipment.parcels()) {
    const int64_t bytes = Product(parcel.extent()) * static_cast<int64_t>(SizeOf(TypeOf(parcel.dtype())));
    const int64_t place = ParcelOffset(end);
    if (place != end) {
      cut();
      begin = place;
    }
    end = place + bytes;
    traffic.payloads += times * bytes;
  }
  cut();
  traffic.pieces += times * std::max<int64_t>(pieces, 1);  // one without bytes, if there are none
}

void ShowVariables(const pb::Program& set, std::string& out) {
  for (const pb::Variable& variable : set.variables()) {
    absl::StrAppend(&out, "variable '", variable.name(), "' ", Name(TypeOf(variable.dtype())), List(variable.dims()),
                    " ", variable.init(), MarkOf(static_cast<VariableRole>(variable.role())), ":");
    for (const pb::Shard& shard : variable.shards()) {
      absl::StrAppend(&out, " rank ", shard.rank(), List(shard.extent()), "at", List(shard.start()), "@",
                      ZoneName(shard.zone()), "+", shard.offset(), shard.owner() ? "*" : "");
    }
    absl::StrAppend(&out, "\n");
  }
}

}  // namespace

HostTraffic PredictedTraffic(const pb::Program& program, const pb::Plan& plan) {
  HostTraffic traffic;
  const auto rank_of = [&](int actor) -> const pb::Rank& { return program.ranks(plan.actors(actor).rank()); };
  const auto is_ours = [&](const pb::Rank& rank) {
    return !program.has_process() || rank.process() == program.process();
  };
  for (int r = 0; r < plan.registers_size(); ++r) {
    const pb::Register& reg = plan.registers(r);
    const pb::Rank& from = rank_of(reg.producer());
    const int64_t times = SlotsPerStep(plan, r);
    for (const int consumer : reg.consumers()) {
      const pb::Rank& to = rank_of(consumer);
      if (to.host() == from.host()) continue;
      traffic.messages += times * (is_ours(from) + is_ours(to));  // filled, freed
    }
    if (!is_ours(from)) continue;
    for (const pb::Shipment& shipment : reg.shipments()) {
      traffic.messages -= times;  // its last piece says that the slot is filled
      Add(shipment, times, traffic);
    }
  }
  return traffic;
}

int64_t PredictedBytesMoved(const pb::Plan& plan) {
  int64_t bytes = 0;
  for (const pb::Actor& actor : plan.actors()) {
    for (const pb::Instruction& instruction : actor.instructions()) {
      bytes += BytesMovedBy(plan, actor, instruction) * actor.acts_per_step();
    }
  }
  return bytes;
}

std::string ProgramText(const pb::Program& set) {
  std::string out = absl::StrCat("job '", set.job(), "' version ", set.version(), ", ", set.ranks_size(),
                                 " ranks, seed ", set.seed(), "\n");
  ShowRanks(set, out);
  ShowVariables(set, out);
  for (int c = 0; c < set.communicators_size(); ++c) {
    absl::StrAppend(&out, "communicator ", c, ": ranks ", List(set.communicators(c).ranks()), "\n");
  }
  for (const pb::Plan& plan : set.plans()) {
    absl::StrAppend(&out, "plan '", plan.name(), "': ", plan.actors_size(), " actors, ", plan.registers_size(),
                    " registers, ", plan.micro_batches(), " micro-batches per step, boxing moves ",
                    PredictedBytesMoved(plan), " bytes per step");
    if (const HostTraffic to_hosts = PredictedTraffic(set, plan); to_hosts.on_the_way() > 0) {
      absl::StrAppend(&out, "\n  to other hosts ", to_hosts.payloads, " bytes in ", to_hosts.pieces, " pieces, ",
                      to_hosts.messages, " messages; with headers ", to_hosts.on_the_way(), " bytes");
    }
    absl::StrAppend(&out, "\n  registers\n");
    for (int r = 0; r < plan.registers_size(); ++r) ShowRegister(plan, r, out);
    absl::StrAppend(&out, "  actors\n");
    for (int a = 0; a < plan.actors_size(); ++a) ShowActor(plan, a, out);
    if (plan.orders_size() > 0) absl::StrAppend(&out, "  orders\n");
    for (const pb::QueueOrder& order : plan.orders()) {
      absl::StrAppend(&out, "    rank ", order.rank(), " ", QueueName(order.queue()), ": a",
                      absl::StrJoin(order.actors(), " a"), "\n");
    }
  }
  return out;
}

}  // namespace oneflow
