#include "compiler/lower/far_reads.h"

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/lower/repeated_field.h"
#include "compiler/plan/variables.h"
#include "oneflow_core/frames.h"

namespace oneflow {
namespace {

int64_t NumBytes(const pb::Parcel& box) {
  auto bytes = static_cast<int64_t>(SizeOf(static_cast<DType>(box.dtype())));
  for (const int64_t extent : box.extent()) bytes *= extent;
  return bytes;
}

// The index of the element `offset` elements from the beginning of a dense tensor.
std::vector<int64_t> Coordinates(int64_t offset, const std::vector<int64_t>& dims) {
  std::vector<int64_t> at(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    at[d] = offset % dims[d];
    offset /= dims[d];
  }
  return at;
}

}  // namespace

GroupBox GroupsOf(const CopyPiece& piece, const std::vector<int64_t>& shard_dims, int rows) {
  const std::vector<int64_t> at = Coordinates(piece.source_offset, shard_dims);
  GroupBox box;
  box.start.assign(at.begin(), at.begin() + rows);
  box.extent.assign(piece.extent.begin(), piece.extent.begin() + rows);
  box.stride = Shape(std::vector<int64_t>(shard_dims.begin(), shard_dims.begin() + rows)).Strides();
  for (int d = 0; d < rows; ++d) box.offset += box.start[d] * box.stride[d];
  return box;
}

const FarReads::Parcel& FarReads::Payload::Of(int instruction, int input) const {
  return *std::find_if(parcels.begin(), parcels.end(),
                       [&](const Parcel& x) { return x.instruction == instruction && x.input == input; });
}

void FarReads::Payload::Add(Parcel parcel) {
  parcel.offset = ParcelOffset(num_bytes);
  const int64_t bytes = NumBytes(parcel.box), gap = parcel.offset - num_bytes;
  if (!parcels.empty() && parcels.back().box.has_counts()) ragged_bytes += gap;
  if (parcel.box.has_counts()) ragged_bytes += bytes;
  num_bytes = parcel.offset + bytes;
  parcels.push_back(std::move(parcel));
}

absl::StatusOr<const FarReads::Payload*> FarReads::PayloadOf(const Instance& reader, int reg, int source) {
  std::unique_ptr<Payload>& payload = payloads_[{reader.actor, reader.rank, reg, source}];
  if (payload != nullptr) return payload.get();
  auto made = std::make_unique<Payload>();
  for (int i = 0; i < plan_.actors(reader.actor).instructions_size(); ++i) {
    if (plan_.actors(reader.actor).instructions(i).kind() != pb::Instruction::COPY) continue;
    OF_RETURN_IF_ERROR(AddParcels(reader, i, reg, source, *made));
  }
  payload = std::move(made);
  return payload.get();
}

absl::Status FarReads::AddParcels(const Instance& reader, int instruction, int reg, int source, Payload& out) {
  const pb::ClassInstruction& of = plan_.actors(reader.actor).instructions(instruction);
  for (int i = 0; i < of.inputs_size(); ++i) {
    const pb::ClassOperand& input = of.inputs(i);
    if (input.place() != pb::ClassOperand::REGISTER || input.index() != reg) continue;
    OF_ASSIGN_OR_RETURN(GroupBoxing* const boxing, boxings_.Of(reader.rank, of));
    const int from = boxing->from().IndexOf(source), to = boxing->to().IndexOf(reader.rank);
    if (from < 0 || to < 0) continue;
    const std::optional<CopyPiece> piece = boxing->PieceBetween(to, from);
    if (!piece.has_value()) continue;
    Parcel parcel{.instruction = instruction, .input = i};
    parcel.box = i == 0 ? BoxOfShard(*piece, input) : BoxOfCounts(*piece, of, source);
    if (i == 0 && of.inputs_size() > 1) OF_RETURN_IF_ERROR(AddRowCounts(*piece, of, source, parcel.box));
    out.Add(std::move(parcel));
  }
  return absl::OkStatus();
}

pb::Parcel FarReads::BoxOfShard(const CopyPiece& piece, const pb::ClassOperand& shard) const {
  const DType dtype = reader_.tensor(shard.tensor()).type.dtype;
  pb::Parcel box;
  box.set_dtype(static_cast<pb::DType>(dtype));
  box.set_offset(shard.offset() + piece.source_offset * static_cast<int64_t>(SizeOf(dtype)));
  CopyInts(piece.extent, box.mutable_extent());
  CopyInts(piece.source_stride, box.mutable_stride());
  return box;
}

// The number of filled rows in the piece.
absl::Status FarReads::AddRowCounts(const CopyPiece& piece, const pb::ClassInstruction& boxing, int source,
                                    pb::Parcel& rows) const {
  const pb::ClassOperand& counts = boxing.inputs(1);
  if (counts.place() != pb::ClassOperand::REGISTER) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows of rank ", source, " are read on another host, and their counts lie in no register"));
  }
  const Region shard = ShardOfRows(boxing, source);
  const int dim = reader_.tensor(boxing.inputs(0).tensor()).type.ragged;
  const pb::Parcel box = BoxOfCounts(piece, boxing, source);
  pb::RowCounts& to = *rows.mutable_counts();
  to.set_register_(counts.index());
  to.set_offset(box.offset());
  *to.mutable_stride() = box.stride();
  to.set_first_row(shard.start[dim] + Coordinates(piece.source_offset, shard.extent)[dim]);
  return absl::OkStatus();
}

Region FarReads::ShardOfRows(const pb::ClassInstruction& boxing, int source) const {
  const PlanReader::Tensor& rows = reader_.tensor(boxing.inputs(0).tensor());
  return ShardRegion(rows.type.shape, rows.dist, rows.dist.placement.IndexOf(source));
}

// Of the groups whose rows are in the piece.
pb::Parcel FarReads::BoxOfCounts(const CopyPiece& piece, const pb::ClassInstruction& boxing, int source) const {
  const int dim = reader_.tensor(boxing.inputs(0).tensor()).type.ragged;
  const GroupBox groups = GroupsOf(piece, ShardOfRows(boxing, source).extent, dim);
  const pb::ClassOperand& counts = boxing.inputs(1);
  const DType dtype = reader_.tensor(counts.tensor()).type.dtype;
  pb::Parcel box;
  box.set_dtype(static_cast<pb::DType>(dtype));
  box.set_offset(counts.offset() + groups.offset * static_cast<int64_t>(SizeOf(dtype)));
  CopyInts(groups.extent, box.mutable_extent());
  CopyInts(groups.stride, box.mutable_stride());
  return box;
}

// Ranks of other hosts on which it reads the register, as indices into the register's grid.
absl::StatusOr<std::vector<int>> FarReads::FarSources(const Instance& reader, int reg) {
  std::set<int> indices;
  for (const pb::ClassInstruction* const instruction : boxings_.ThatRead(reader.actor, reg)) {
    OF_ASSIGN_OR_RETURN(GroupBoxing* const boxing, boxings_.Of(reader.rank, *instruction));
    OF_ASSIGN_OR_RETURN(const auto* const copies, PlanBoxings::CopiesTo(reader.rank, *instruction, *boxing));
    for (const int source : copies->sources) {
      const int rank = boxing->from().ranks()[source];
      if (IsFar(rank, reader.rank)) indices.insert(reader_.grid(plan_.registers(reg).grid()).IndexOf(rank));
    }
  }
  return std::vector<int>(indices.begin(), indices.end());
}

absl::StatusOr<const std::vector<FarReads::Landing>*> FarReads::LandingsOf(const Instance& reader) {
  landings_.clear();
  const pb::ClassActor& actor = plan_.actors(reader.actor);
  if (reader_.topology().num_hosts() == 1 || boxings_.Sends(reader.actor)) return &landings_;
  int64_t end = 0;
  for (const pb::Port& port : actor.inputs()) {
    OF_ASSIGN_OR_RETURN(const std::vector<int> sources, FarSources(reader, port.register_()));
    for (const int index : sources) {
      const int source = reader_.grid(plan_.registers(port.register_()).grid()).ranks()[index];
      OF_ASSIGN_OR_RETURN(const Payload* const payload, PayloadOf(reader, port.register_(), source));
      const int64_t stride = Align(payload->num_bytes), slots = plan_.registers(port.register_()).slots();
      if (stride > 0 && slots > (actor.pinned_bytes() - end) / stride) {
        return absl::InvalidArgumentError(absl::StrCat("rank ", reader.rank, " takes in ", slots, " times ", stride,
                                                       " bytes of rank ", source, " at ", end,
                                                       "; the plan has room for ", actor.pinned_bytes()));
      }
      landings_.push_back({port.register_(), index, end, stride, payload});
      end += slots * stride;
    }
  }
  return &landings_;
}

}  // namespace oneflow
