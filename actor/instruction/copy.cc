// COPY: boxes of tensors, own ones and peers', copied or combined into one output. Boxing on devices whose memory the
// host can address.
#include "kernels/copy.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
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

}  // namespace

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
