// COPY: boxes of tensors, own ones and peers', copied or combined into one output. Boxing on devices whose memory the
// host can address.
#include "kernels/copy.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/check/bounds.h"
#include "actor/instruction/kinds.h"
#include "actor/instruction/ragged_piece.h"

namespace oneflow {
namespace {

// A box like a piece's source that adds to the same box of the target.
struct BoundAddend {
  int input = 0;
  int64_t source_bytes = 0;
  bool is_remote = false;
};

// One box; the operands' addresses come from the act.
struct BoundPiece {
  int input = 0;
  int64_t source_bytes = 0;  // offsets
  int64_t target_bytes = 0;
  CopyRegionArgs copy;         // spans point into the plan
  bool is_remote = false;      // its source is another rank's memory
  int64_t num_bytes = 0;       // of all of it
  std::optional<RowBox> rows;  // by counts: the filled ones are copied
  int64_t row_bytes = 0;       // by counts: of one of them
  bool source_packed = false;  // by counts
  bool target_packed = false;
  std::vector<BoundAddend> addends = {};
};

// Whether `next` may be an addend of `piece`.
bool AddsTo(const CopyRegionArgs& piece, int64_t target_bytes, const pb::Piece& next) {
  const auto equal = [](std::span<const int64_t> a, const auto& b) { return std::ranges::equal(a, b); };
  return next.accumulate() && target_bytes == next.target_offset() * static_cast<int64_t>(SizeOf(piece.dtype)) &&
         equal(piece.extent, next.extent()) && equal(piece.source_stride, next.source_stride()) &&
         equal(piece.target_stride, next.target_stride());
}

std::span<const int64_t> Span(const google::protobuf::RepeatedField<int64_t>& values) {
  return {values.data(), static_cast<size_t>(values.size())};
}

class Copy final : public BoundInstruction {
 public:
  explicit Copy(Unbound unbound)
      : BoundInstruction(std::move(unbound.operands)),
        device_(unbound.context.device),
        zero_fill_(unbound.instruction.zero_fill()),
        counts_(unbound.instruction.by_counts() ? unbound.instruction.inputs_size() / 2 : 0) {}

  // `rank` owns the memory that the piece reads; `own_rank` runs the copy.
  absl::Status Add(const pb::Instruction& in, const pb::Piece& piece, int rank, int own_rank) {
    const DType dtype = operands_.outputs()[0].dtype;
    const int64_t size = static_cast<int64_t>(SizeOf(dtype));
    if (!pieces_.empty() && device_.host_accessible() && counts_ == 0 &&
        AddsTo(pieces_.back().copy, pieces_.back().target_bytes, piece)) {
      pieces_.back().addends.push_back({piece.input(), piece.source_offset() * size, rank != own_rank});
      return absl::OkStatus();
    }
    pieces_.push_back({.input = piece.input(),
                       .source_bytes = piece.source_offset() * size,
                       .target_bytes = piece.target_offset() * size,
                       .copy = {.dtype = dtype,
                                .extent = Span(piece.extent()),
                                .source_stride = Span(piece.source_stride()),
                                .target_stride = Span(piece.target_stride()),
                                .accumulate = piece.accumulate(),
                                .reduce = static_cast<Reduction>(in.reduce())}});
    BoundPiece& added = pieces_.back();
    added.is_remote = rank != own_rank;
    added.num_bytes = size;
    for (const int64_t extent : piece.extent()) added.num_bytes *= extent;
    if (counts_ > 0) AddRows(in, piece, added);
    if (!added.is_remote || added.num_bytes == 0 || device_.host_accessible()) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat("it reads memory of rank ", rank, ", which the host cannot address; this takes a collective"));
  }

  absl::Status Run(const CurrentAct&) override {
    const TensorArg& target = operands_.outputs()[0];
    if (zero_fill_) OF_RETURN_IF_ERROR(Checked(device_.FillZero(target.data, NumBytes(target))));
    remote_bytes_ = 0;
    for (BoundPiece& piece : pieces_) {
      piece.copy.source = operands_.all()[piece.input].as<char>() + piece.source_bytes;
      piece.copy.target = target.as<char>() + piece.target_bytes;
      piece.copy.addends = Addends(piece);
      OF_RETURN_IF_ERROR(Checked(piece.rows.has_value() ? CopyFilled(piece) : device_.CopyRegion(piece.copy)));
      if (piece.is_remote) remote_bytes_ += piece.rows.has_value() ? FilledBytes(piece) : piece.num_bytes;
      for (const BoundAddend& addend : piece.addends) remote_bytes_ += addend.is_remote ? piece.num_bytes : 0;
    }
    return absl::OkStatus();
  }

  // On a device with memory of its own no piece is another rank's, and counts are read by the device.
  bool can_be_captured() const override { return !device_.host_accessible(); }

  int64_t remote_bytes() const override { return remote_bytes_; }

 private:
  // Their places in this act; until the next call.
  std::span<const void* const> Addends(const BoundPiece& piece) {
    addends_.clear();
    for (const BoundAddend& addend : piece.addends) {
      addends_.push_back(operands_.all()[addend.input].as<char>() + addend.source_bytes);
    }
    return addends_;
  }

  // Counts are of the source, or of the target where the source has no rows; landed data is packed, too.
  void AddRows(const pb::Instruction& in, const pb::Piece& piece, BoundPiece& added) const {
    const pb::Operand &from = in.inputs(piece.input()), &to = in.outputs(0);
    const bool is_dense = from.ragged() == 0;
    added.source_packed = is_dense || from.landed();
    added.target_packed = to.ragged() == 0;
    const TensorArg& shard = is_dense ? operands_.outputs()[0] : operands_.all()[piece.input()];
    const int dim = (is_dense ? to : from).ragged() - 1;
    added.rows =
        RowsOfPiece(shard, dim, is_dense ? piece.target_offset() : piece.source_offset(), Span(piece.extent()));
    added.row_bytes = static_cast<int64_t>(SizeOf(shard.dtype));
    for (int d = dim + 1; d < piece.extent_size(); ++d) added.row_bytes *= piece.extent(d);
  }

  const int32_t* CountsOf(const BoundPiece& piece) const {
    return operands_.all()[counts_ + piece.input].as<const int32_t>();
  }
  const char* CopyFilled(const BoundPiece& piece) {
    return device_.CopyRows({piece.copy, *piece.rows, CountsOf(piece), piece.source_packed, piece.target_packed});
  }
  // Where the memory is another rank's, the host can read the counts as well.
  int64_t FilledBytes(const BoundPiece& piece) const {
    return CountRows(*piece.rows, CountsOf(piece)) * piece.row_bytes;
  }

  DeviceContext& device_;
  const bool zero_fill_;
  const int counts_;  // by counts: the input that is the counts of input 0; else 0
  std::vector<BoundPiece> pieces_;
  std::vector<const void*> addends_;  // of one piece
  int64_t remote_bytes_ = 0;
};

// The operand of a copy by counts that has the rows of an input: the input or, if that is packed, the output.
const pb::Operand& RaggedEnd(const pb::Instruction& in, const pb::Operand& input) {
  return input.ragged() > 0 ? input : in.outputs(0);
}

// Whether this is the box of a dense tensor that begins at its offset.
bool IsBox(const Dims& extent, int64_t offset, const Dims& strides, const Dims& dims) {
  if (extent.size() != dims.size() || strides.size() != dims.size()) return false;
  int64_t stride = 1, rest = offset;
  if (rest < 0) return false;
  for (int d = dims.size(); d-- > 0;) {
    const int64_t at = dims[d] > 0 ? rest % dims[d] : 0;
    if (strides[d] != stride || !Inside(at, extent[d], dims[d])) return false;
    stride *= dims[d];
    rest = dims[d] > 0 ? rest / dims[d] : rest;
  }
  return true;
}

absl::Status CheckPieceOfRows(const pb::Instruction& in, const pb::Piece& piece) {
  const pb::Operand &from = in.inputs(piece.input()), &to = in.outputs(0);
  const Dims& dims = RaggedEnd(in, from).dims();
  const auto check_packed = [&](const pb::Operand& x, int64_t offset) {
    const std::optional<int64_t> elements = Count(piece.extent());
    if (x.ragged() > 0 || (elements && Inside(offset, *elements, *Count(x.dims())))) return absl::OkStatus();
    return Malformed("extent ", Text(piece.extent()), " packed at ", offset, " reaches outside ", Text(x.dims()));
  };
  OF_RETURN_IF_ERROR(check_packed(from, piece.source_offset()));
  OF_RETURN_IF_ERROR(check_packed(to, piece.target_offset()));
  const bool box = from.ragged() > 0 ? IsBox(piece.extent(), piece.source_offset(), piece.source_stride(), dims)
                                     : IsBox(piece.extent(), piece.target_offset(), piece.target_stride(), dims);
  if (box) return absl::OkStatus();
  return Malformed("extent ", Text(piece.extent()), " from ", piece.source_offset(), " with strides ",
                   Text(piece.source_stride()), " to ", piece.target_offset(), " with strides ",
                   Text(piece.target_stride()), " is no box of ", Text(dims));
}

// There are counts of all groups of rows that are copied by them, and pieces are boxes of such rows.
absl::Status CheckCountsOfCopy(const pb::Instruction& in) {
  const int sources = in.inputs_size() / 2;
  if (in.inputs_size() % 2 != 0) return Malformed(in.inputs_size(), " inputs of a copy by counts");
  for (int i = 0; i < sources; ++i) {
    const pb::Operand &from = in.inputs(i), &to = in.outputs(0), &counts = in.inputs(sources + i);
    const pb::Operand& rows = RaggedEnd(in, from);
    const int groups = rows.ragged() - 1;
    const bool fit = from.ragged() == to.ragged() || from.ragged() == 0 || to.ragged() == 0;
    const auto begins_alike = [&](const Dims& of_rows, const Dims& groups_of) {
      return groups_of.size() == groups && std::equal(groups_of.begin(), groups_of.end(), of_rows.begin());
    };
    if (groups < 0 || !fit || counts.dtype() != pb::I32 || !begins_alike(rows.dims(), counts.dims()) ||
        !begins_alike(rows.start(), counts.start())) {
      return Malformed("input ", i, ": counts ", Text(counts.dims()), " at ", Text(counts.start()), " of rows ",
                       Text(rows.dims()), " at ", Text(rows.start()), ", ragged dimension ", from.ragged(), " to ",
                       to.ragged());
    }
  }
  for (int i = 0; i < in.pieces_size(); ++i) {
    const pb::Piece& piece = in.pieces(i);
    if (piece.input() >= sources) return Malformed("piece ", i, ": input ", piece.input(), " is counts");
    if (piece.input() < 0) continue;  // reported below
    OF_RETURN_IF_ERROR_AT(CheckPieceOfRows(in, piece), absl::StrCat("piece ", i));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCopy(const Unchecked& unchecked) {
  const pb::Instruction& in = unchecked.instruction;
  if (in.outputs_size() != 1) return Malformed("a copy has one output, not ", in.outputs_size());
  const pb::Operand& to = in.outputs(0);
  if (in.by_counts()) OF_RETURN_IF_ERROR(CheckCountsOfCopy(in));
  for (int i = 0; i < in.pieces_size(); ++i) {
    const pb::Piece& piece = in.pieces(i);
    const std::string where = absl::StrCat("piece ", i);
    if (piece.input() < 0 || piece.input() >= in.inputs_size()) {
      return Malformed(where, ": input ", piece.input(), " is not one of ", in.inputs_size());
    }
    const pb::Operand& from = in.inputs(piece.input());
    if (from.dtype() != to.dtype()) return Malformed(where, ": copies dtype ", from.dtype(), " to ", to.dtype());
    OF_RETURN_IF_ERROR_AT(CheckReach(piece.extent(), piece.source_offset(), piece.source_stride(), from.dims()),
                          absl::StrCat(where, ": source"));
    OF_RETURN_IF_ERROR_AT(CheckReach(piece.extent(), piece.target_offset(), piece.target_stride(), to.dims()),
                          absl::StrCat(where, ": target"));
  }
  return absl::OkStatus();
}

BoundOrError BindCopy(Unbound unbound) {
  const pb::Instruction& in = unbound.instruction;
  const pb::Plan& plan = unbound.plan;
  const int own_rank = unbound.context.rank;
  auto copy = std::make_unique<Copy>(std::move(unbound));
  for (const pb::Piece& piece : in.pieces()) {
    const int id = in.inputs(piece.input()).register_();
    const int rank = id < 0 ? own_rank : plan.actors(plan.registers(id).producer()).rank();
    OF_RETURN_IF_ERROR(copy->Add(in, piece, rank, own_rank));
  }
  return copy;
}

}  // namespace oneflow
