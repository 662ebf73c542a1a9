#include "compiler/lower/program_instructions.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/lower/plan_reader.h"
#include "compiler/lower/repeated_field.h"
#include "compiler/plan/owners.h"
#include "oneflow_core/zones.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

// Between keys of random numbers of neighbours: odd, so that no two of 2^64 are equal.
constexpr uint64_t kKeyDistance = 0x9E3779B97F4A7C15;

pb::Reduce Lower(Reduction reduction) { return static_cast<pb::Reduce>(reduction); }  // the same numbers (sbp.h)

// Sources are positions among the inputs.
void WritePieces(const CopyProgram& program, Reduction reduction, pb::Instruction& out) {
  out.set_kind(pb::Instruction::COPY);
  out.set_zero_fill(program.zero_fill);
  out.set_reduce(Lower(reduction));
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

// `box` of a shard of ragged rows, in terms of its counts.
void WriteRows(const Region& box, const pb::Operand& shard, pb::Rows& out) {
  const int rows = shard.ragged() - 1;
  out.set_row_elements(1);
  for (int d = 0; d < static_cast<int>(box.start.size()); ++d) {
    if (d < rows) out.add_start(box.start[d]), out.add_extent(box.extent[d]);
    if (d > rows) out.set_row_elements(out.row_elements() * box.extent[d]);
  }
  out.set_first_row(shard.start(rows) + box.start[rows]);
  out.set_rows(box.extent[rows]);
}

}  // namespace

int64_t OffsetIn(const google::protobuf::RepeatedPtrField<pb::ClassOffset>& offsets, int rank_class) {
  const auto it = std::lower_bound(offsets.begin(), offsets.end(), rank_class,
                                   [](const pb::ClassOffset& offset, int c) { return offset.class_() < c; });
  return it == offsets.end() || it->class_() != rank_class ? -1 : it->offset();
}

struct InstructionSpeller::Here {
  int actor = 0;
  int rank = 0;
  int number = 0;  // of the instruction in its actor
  const pb::ClassInstruction& instruction;
  const RegisterIndex& register_index;

  pb::Instruction& Begin(pb::Actor& out) const { return Begin(*out.add_instructions()); }
  pb::Instruction& Begin(pb::Instruction& to) const {
    to.set_op(instruction.op());
    to.set_node(instruction.node());
    to.set_source(instruction.source());
    return to;
  }
};

// The inputs of a copy, one for each source.
struct InstructionSpeller::Sources {
  std::vector<pb::Operand> inputs, counts;  // counts: of ragged rows
  std::vector<bool> landed;                 // of another host
};

// A rank's shards, and the counts of ragged ones.
struct InstructionSpeller::Shards {
  pb::Operand given, result, given_counts, result_counts;
  bool ragged = false;
};

struct InstructionSpeller::Share {
  std::optional<pb::Instruction> pack, call, unpack;
  std::set<int> ranks;  // of the boxing's group of ranks, if all of them make the call; else none

  // Whether the two consecutive calls are one launch.
  bool JoinsTo(const Share& before) const {
    return call.has_value() && before.call.has_value() && !ranks.empty() && ranks == before.ranks &&
           call->communicator() == before.call->communicator() &&
           (call->collective() == "exchange") == (before.call->collective() == "exchange");
  }
};

int64_t InstructionSpeller::RegionAt(int zone, int rank) const {
  return RegionBegin(set_, plan_, reader_.class_of_rank(rank), zone);
}

int64_t InstructionSpeller::RegisterOffset(int reg, int rank) const {
  const pb::ClassRegister& of = plan_.registers(reg);
  if (of.variable() < 0) return RegionAt(of.zone(), rank) + of.offset();
  return OffsetIn(set_.variables(of.variable()).offsets(), reader_.class_of_rank(rank));
}

absl::Status InstructionSpeller::SpellAll(int actor, int rank, const RegisterIndex& register_index, pb::Actor& out) {
  OF_RETURN_IF_ERROR(SpellLandings(actor, rank, register_index, out));
  const auto& instructions = plan_.actors(actor).instructions();
  for (int i = 0; i < instructions.size();) {
    const int first = i;
    std::vector<const pb::ClassInstruction*> group = {&instructions[i++]};
    while (group[0]->group() > 0 && i < instructions.size() && instructions[i].group() == group[0]->group()) {
      group.push_back(&instructions[i++]);
    }
    if (boxings_.Sends(actor) && group[0]->kind() == pb::Instruction::COPY) {
      OF_RETURN_IF_ERROR(SpellGroup(actor, rank, group, register_index, out));
      continue;
    }
    for (int at = first; at < i; ++at) {
      OF_RETURN_IF_ERROR_AT(Spell({actor, rank, at, instructions[at], register_index}, out),
                            absl::StrCat("node '", instructions[at].node(), "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status InstructionSpeller::SpellGroup(int actor, int rank, absl::Span<const pb::ClassInstruction* const> group,
                                            const RegisterIndex& register_index, pb::Actor& out) {
  std::vector<Share> shares;
  for (const pb::ClassInstruction* const instruction : group) {
    const std::string where = absl::StrCat("node '", instruction->node(), "'");
    if (instruction->kind() != pb::Instruction::COPY) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": is in a group of boxings, but is '", instruction->op(), "'"));
    }
    OF_ASSIGN_OR_RETURN_AT(shares.emplace_back(), ShareOf({actor, rank, 0, *instruction, register_index}), where);
  }
  for (size_t i = 1; i < shares.size(); ++i) {
    if (!shares[i].JoinsTo(shares[i - 1])) continue;
    pb::Instruction& before = *shares[i - 1].call;
    if (before.group() == 0) before.set_group(out.instructions_size() + static_cast<int>(i));
    shares[i].call->set_group(before.group());
  }
  for (const auto part : {&Share::pack, &Share::call, &Share::unpack}) {
    for (Share& share : shares) {
      if ((share.*part).has_value()) *out.add_instructions() = *std::move(share.*part);
    }
  }
  return absl::OkStatus();
}

absl::Status InstructionSpeller::Spell(const Here& here, pb::Actor& out) {
  const auto& [actor, rank, number, instruction, register_index] = here;
  if (instruction.kind() == pb::Instruction::COPY) return SpellCopy(here, out);
  const int index = reader_.grid(plan_.actors(actor).grid()).IndexOf(rank);
  if (instruction.kind() == pb::Instruction::FETCH && index != 0)
    return absl::OkStatus();  // one rank is enough to tell the host
  pb::Instruction& to = here.Begin(out);
  to.set_kind(instruction.kind());
  *to.mutable_attributes() = instruction.attributes();
  for (const pb::ClassOperand& x : instruction.inputs())
    OF_RETURN_IF_ERROR(WriteOperand(here, x, rank, *to.add_inputs()));
  for (const pb::ClassOperand& x : instruction.outputs()) {
    OF_RETURN_IF_ERROR(WriteOperand(here, x, rank, *to.add_outputs()));
  }
  MakeOwn(instruction, index, to);
  if (instruction.scratch_bytes() > 0) {
    to.set_scratch_offset(RegionAt(kWorkZone, rank) + instruction.scratch_offset());
    to.set_scratch_bytes(instruction.scratch_bytes());
  }
  return absl::OkStatus();
}

// Where ranks go on by themselves, they read different samples, as parts of a batch that has those of all, and draw
// different numbers.
void InstructionSpeller::MakeOwn(const pb::ClassInstruction& instruction, int index, pb::Instruction& to) const {
  if (instruction.outputs().empty()) return;
  const OwnPart own = OwnPartAt(reader_.tensor(instruction.outputs(0).tensor()).dist, index);
  if (own.count == 0) return;
  const bool reads = instruction.kind() == pb::Instruction::READ;
  for (pb::Operand& output : *to.mutable_outputs()) {
    if (!reads) continue;
    output.set_start(0, output.start(0) + own.index * output.logical_dims(0));
    output.set_logical_dims(0, own.count * output.logical_dims(0));
  }
  for (pb::Attribute& attribute : *to.mutable_attributes()) {
    if (reads && attribute.name() == "part") attribute.set_i(own.index);
    if (reads && attribute.name() == "batch") attribute.set_i(own.count * attribute.i());
    if (attribute.name() == "key" && attribute.value_case() == pb::Attribute::kI) {
      attribute.set_i(static_cast<int64_t>(static_cast<uint64_t>(attribute.i()) + kKeyDistance * own.index));
    }
  }
}

// The landings of the actor's rank for registers on other hosts.
absl::Status InstructionSpeller::SpellLandings(int actor, int rank, const RegisterIndex& register_index,
                                               pb::Actor& out) {
  OF_ASSIGN_OR_RETURN(const std::vector<FarReads::Landing>* const landings, far_.LandingsOf({actor, rank}));
  for (const FarReads::Landing& landing : *landings) {
    pb::Landing& to = *out.add_landings();
    to.set_register_(register_index(landing.reg, landing.index));
    to.set_offset(RegionAt(kWorkZone, rank) + plan_.actors(actor).pinned_offset() + landing.offset);
    to.set_slot_bytes(landing.payload->num_bytes);
    to.set_slot_stride(landing.slot_stride);
    to.set_ragged_bytes(landing.payload->ragged_bytes);
  }
  return absl::OkStatus();
}

absl::Status InstructionSpeller::SpellCopy(const Here& here, pb::Actor& out) {
  OF_ASSIGN_OR_RETURN(GroupBoxing* const boxing, boxings_.Of(here.rank, here.instruction));
  OF_ASSIGN_OR_RETURN(const auto* const found, PlanBoxings::CopiesTo(here.rank, here.instruction, *boxing));
  const GroupBoxing::Copies& copies = *found;
  Sources sources;
  for (const int source : copies.sources) {
    const int rank = boxing->from().ranks()[source];
    sources.landed.push_back(far_.IsFar(rank, here.rank));
    if (sources.landed.back()) {
      OF_RETURN_IF_ERROR(AddLanded(here, rank, *boxing, sources));
      continue;
    }
    for (int i = 0; i < here.instruction.inputs_size(); ++i) {
      const pb::ClassOperand& from = here.instruction.inputs(i);
      pb::Operand& to = (i == 0 ? sources.inputs : sources.counts).emplace_back();
      OF_RETURN_IF_ERROR(WriteOperand(here, from, rank, to));
    }
  }
  CopyProgram program = copies.program;
  for (CopyPiece& piece : program.pieces) {
    if (!sources.landed[piece.source]) continue;
    piece.source_offset = 0;
    piece.source_stride = Shape(piece.extent).Strides();
  }
  pb::Instruction& to = here.Begin(out);
  WritePieces(program, boxing->reduction(), to);
  to.set_by_counts(here.instruction.inputs_size() > 1);
  for (pb::Operand& x : sources.inputs) *to.add_inputs() = std::move(x);
  for (pb::Operand& x : sources.counts) *to.add_inputs() = std::move(x);
  return WriteOperand(here, here.instruction.outputs(0), here.rank, *to.add_outputs());
}

// The landed data of rank `source`, on another host: the box that is read, dense, with the counts of its groups.
absl::Status InstructionSpeller::AddLanded(const Here& here, int source, GroupBoxing& boxing, Sources& sources) const {
  const std::optional<CopyPiece> piece =
      boxing.PieceBetween(boxing.to().IndexOf(here.rank), boxing.from().IndexOf(source));
  for (int i = 0; i < here.instruction.inputs_size(); ++i) {
    const pb::ClassOperand& x = here.instruction.inputs(i);
    if (!piece.has_value() || x.place() != pb::ClassOperand::REGISTER) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", here.rank, " reads data of rank ", source,
                                                     ", of another host, that lies in no register"));
    }
    OF_ASSIGN_OR_RETURN(const FarReads::Payload* const payload,
                        far_.PayloadOf({here.actor, here.rank}, x.index(), source));
    pb::Operand& to = (i == 0 ? sources.inputs : sources.counts).emplace_back();
    OF_RETURN_IF_ERROR(WriteLanded(here, x, source, *piece, payload->Of(here.number, i), to));
  }
  return absl::OkStatus();
}

// `piece` as it would read the shard in place.
absl::Status InstructionSpeller::WriteLanded(const Here& here, const pb::ClassOperand& x, int source,
                                             const CopyPiece& piece, const FarReads::Parcel& parcel,
                                             pb::Operand& out) const {
  const PlanReader::Tensor& tensor = reader_.tensor(x.tensor());
  const PlanReader::Tensor& read = reader_.tensor(here.instruction.inputs(0).tensor());
  const Region shard = ShardRegion(read.type.shape, read.dist, read.dist.placement.IndexOf(source));
  const int dims = parcel.box.extent_size();
  const GroupBox box = GroupsOf(piece, shard.extent, dims);
  for (int d = 0; d < dims; ++d) out.add_start(shard.start[d] + box.start[d]);
  CopyInts(box.extent, out.mutable_dims());
  CopyInts(tensor.type.shape.dims(), out.mutable_logical_dims());
  out.set_dtype(static_cast<pb::DType>(tensor.type.dtype));
  out.set_ragged(tensor.type.ragged + 1);
  const int index = reader_.grid(plan_.registers(x.index()).grid()).IndexOf(source);
  out.set_register_(here.register_index(x.index(), index));
  out.set_landed(true);
  out.set_offset(parcel.offset);
  return absl::OkStatus();
}

// Pack, call, unpack: those in the rank's share.
absl::StatusOr<InstructionSpeller::Share> InstructionSpeller::ShareOf(const Here& here) {
  OF_ASSIGN_OR_RETURN(GroupBoxing* const boxing, boxings_.Of(here.rank, here.instruction));
  const BoxingShare* const found = boxing->ShareOf(here.rank);
  Share out;
  if (found == nullptr) return out;
  const BoxingShare& share = *found;
  out.ranks.insert(boxing->from().ranks().begin(), boxing->from().ranks().end());
  out.ranks.insert(boxing->to().ranks().begin(), boxing->to().ranks().end());
  if (out.ranks.size() != share.members.size()) out.ranks.clear();
  OF_ASSIGN_OR_RETURN(const Shards shards, ShardsOf(here, share));
  const int64_t element = static_cast<int64_t>(SizeOf(reader_.tensor(here.instruction.outputs(0).tensor()).type.dtype));
  if (share.packed * element > here.instruction.packed_bytes() ||
      share.received * element > here.instruction.received_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", here.rank, " packs ", share.packed * element, " and receives ", share.received * element,
        " bytes; the plan has room for ", here.instruction.packed_bytes(), " and ", here.instruction.received_bytes()));
  }
  const pb::Operand packed = RowOperand(here, here.instruction.packed_offset(), share.packed);
  const pb::Operand received = RowOperand(here, here.instruction.received_offset(), share.received);
  if (share.pack.has_value()) {
    pb::Instruction& pack = here.Begin(out.pack.emplace());
    WritePieces(*share.pack, boxing->reduction(), pack);
    pack.set_by_counts(shards.ragged);
    *pack.add_inputs() = shards.given;
    if (shards.ragged) *pack.add_inputs() = shards.given_counts;
    *pack.add_outputs() = packed;
  }
  if (share.call != GroupCall::kNone) {
    pb::Instruction& call = here.Begin(out.call.emplace());
    call.set_reduce(Lower(boxing->reduction()));
    SpellCall(here, share, shards, call);
    if (share.sends) *call.add_inputs() = share.pack.has_value() ? packed : shards.given;
    if (share.receives) *call.add_outputs() = share.unpack.has_value() ? received : shards.result;
    if (shards.ragged) {
      if (!share.sends) *call.add_inputs() = RowOperand(here, here.instruction.packed_offset(), 0);
      *call.add_inputs() = share.sends ? shards.given_counts : shards.result_counts;
      *call.add_inputs() = share.receives ? shards.result_counts : shards.given_counts;
    }
  }
  if (share.unpack.has_value()) {
    CopyProgram program = *share.unpack;
    if (!share.unpack_reads_shard) {  // then the received data is the only input
      for (CopyPiece& piece : program.pieces) piece.source = 0;
    }
    pb::Instruction& unpack = here.Begin(out.unpack.emplace());
    WritePieces(program, boxing->reduction(), unpack);
    unpack.set_by_counts(shards.ragged);
    if (share.unpack_reads_shard) *unpack.add_inputs() = shards.given;
    if (share.received > 0) *unpack.add_inputs() = received;
    if (shards.ragged && share.unpack_reads_shard) *unpack.add_inputs() = shards.given_counts;
    if (shards.ragged && share.received > 0) *unpack.add_inputs() = shards.result_counts;
    *unpack.add_outputs() = shards.result;
  }
  return out;
}

absl::StatusOr<InstructionSpeller::Shards> InstructionSpeller::ShardsOf(const Here& here, const BoxingShare& share) {
  Shards shards;
  shards.ragged = here.instruction.inputs_size() > 1;
  const auto write = [&](const pb::ClassOperand& x, pb::Operand& out) { return WriteOperand(here, x, here.rank, out); };
  if (share.reads_shard()) {
    OF_RETURN_IF_ERROR(write(here.instruction.inputs(0), shards.given));
    if (shards.ragged) OF_RETURN_IF_ERROR(write(here.instruction.inputs(1), shards.given_counts));
  }
  if (share.receives || share.unpack.has_value()) {
    OF_RETURN_IF_ERROR(write(here.instruction.outputs(0), shards.result));
  }
  if (share.receives && shards.ragged) OF_RETURN_IF_ERROR(write(here.instruction.inputs(2), shards.result_counts));
  return shards;
}

void InstructionSpeller::SpellCall(const Here&, const BoxingShare& share, const Shards& shards, pb::Instruction& call) {
  call.set_kind(pb::Instruction::COLLECTIVE);
  call.set_collective(Name(share.call));
  const auto known = std::find(communicators_.begin(), communicators_.end(), share.members);
  call.set_communicator(static_cast<int>(known - communicators_.begin()));
  if (known == communicators_.end()) communicators_.push_back(share.members);
  for (const PlannedTransfer& transfer : share.transfers) {
    pb::Transfer& to = *call.add_transfers();
    to.set_peer(transfer.peer);
    to.set_send_offset(transfer.send_offset);
    to.set_send_count(transfer.send_count);
    to.set_receive_offset(transfer.receive_offset);
    to.set_receive_count(transfer.receive_count);
    if (!shards.ragged) continue;
    if (transfer.send_count > 0) WriteRows(transfer.send_box, shards.given, *to.mutable_send_rows());
    if (transfer.receive_count > 0) WriteRows(transfer.receive_box, shards.result, *to.mutable_receive_rows());
  }
  call.set_by_counts(shards.ragged);
}

pb::Operand InstructionSpeller::RowOperand(const Here& here, int64_t offset, int64_t elements) const {
  pb::Operand out;
  out.set_register_(-1);
  out.set_zone(kWorkZone);
  out.set_offset(RegionAt(kWorkZone, here.rank) + offset);
  out.set_dtype(static_cast<pb::DType>(reader_.tensor(here.instruction.outputs(0).tensor()).type.dtype));
  out.add_dims(elements);
  out.add_logical_dims(elements);
  out.add_start(0);
  return out;
}

// What rank `of` has of the operand, as the rank here sees it.
absl::Status InstructionSpeller::WriteOperand(const Here& here, const pb::ClassOperand& x, int of,
                                              pb::Operand& out) const {
  const PlanReader::Tensor& tensor = reader_.tensor(x.tensor());
  const Region region = ShardRegion(tensor.type.shape, tensor.dist, tensor.dist.placement.IndexOf(of));
  out.set_dtype(static_cast<pb::DType>(tensor.type.dtype));
  CopyInts(region.extent, out.mutable_dims());
  CopyInts(tensor.type.shape.dims(), out.mutable_logical_dims());
  CopyInts(region.start, out.mutable_start());
  out.set_ragged(tensor.type.ragged + 1);
  out.set_layout(static_cast<int>(tensor.layout));
  const auto fix = [&](int zone, int64_t offset) {
    out.set_register_(-1);
    out.set_zone(zone);
    out.set_offset(offset);
    return absl::OkStatus();
  };
  const int rank_class = reader_.class_of_rank(here.rank);
  switch (x.place()) {
    case pb::ClassOperand::VARIABLE:
      return fix(set_.variables(x.index()).zone(), OffsetIn(set_.variables(x.index()).offsets(), rank_class));
    case pb::ClassOperand::WORKSPACE:
      return fix(kWorkZone, RegionAt(kWorkZone, here.rank) + x.offset());
    case pb::ClassOperand::PINNED:
      return fix(kWorkZone, RegionAt(kWorkZone, here.rank) + plan_.actors(here.actor).pinned_offset() + x.offset());
    default:
      break;
  }
  const pb::ClassRegister& reg = plan_.registers(x.index());
  const bool own = of == here.rank;
  const int index = reader_.grid(reg.grid()).IndexOf(of), position = here.register_index(x.index(), index);
  // A variable's memory needs no register on its own rank, nor does a register that nobody else reads.
  if (own && (reg.variable() >= 0 || position < 0)) {
    return fix(reg.zone(), RegisterOffset(x.index(), here.rank) + x.offset());
  }
  if (position < 0) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", here.rank, " reads register '", reg.name(), "' of index ",
                                                   index, " of its grid, which nobody waits for"));
  }
  out.set_register_(position);
  out.set_offset(x.offset());
  return absl::OkStatus();
}

}  // namespace oneflow
