#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/passes/edges/codec.h"
#include "oneflow_core/functional.h"

namespace oneflow {

absl::Span<const Codec> Codecs() {
  static const Codec kCodecs[] = {PowerSgdCodec(), TopKCodec(), QuantCodec(), RandKCodec(), PermKCodec()};
  return kCodecs;
}

absl::StatusOr<const Codec*> FindCodec(absl::string_view name) {
  for (const Codec& codec : Codecs()) {
    if (codec.name == name) return &codec;
  }
  const auto append_name = [](std::string* out, const Codec& codec) { absl::StrAppend(out, codec.name); };
  return absl::InvalidArgumentError(
      absl::StrCat("there is no codec '", name, "'; there are ", absl::StrJoin(Codecs(), ", ", append_name)));
}

Tensor SquaresBeyond(const Tensor& x, const Tensor& squares, const std::vector<int64_t>& counts) {
  std::vector<double> last;
  for (const int64_t count : counts) last.push_back(static_cast<double>(count - 1));
  const auto size = static_cast<int64_t>(counts.size());
  const Tensor sums = Gather(Cumsum(squares, 0), Constant(*x.builder(), {DType::kInt32, Shape({size})}, last));
  return Relu(Sub(ReduceSum(Square(x)), sums));
}

CodecStep::CodecStep(GraphEditor& editor, const Tensor& addends, std::string axis, int64_t ranks, SbpHint whole,
                     const CompressOptions& options, const CodeSize& size)
    : editor_(editor),
      addends_(addends),
      axis_(std::move(axis)),
      ranks_(ranks),
      whole_(std::move(whole)),
      options_(options),
      size_(size) {}

// How a value lies: `sbp` along the codec's axis; along the others as the gradient does, with `shift` dimensions before
// those of the matrix.
SbpHint CodecStep::Along(Sbp sbp, bool split, int shift) const {
  SbpHint hint = {{axis_, sbp}};
  for (const AxisSbp& other : whole_) {
    const bool is_split = split && other.sbp.is_split();
    hint.push_back({other.axis, is_split ? Sbp::Split(other.sbp.dim() + shift) : Sbp::Broadcast()});
  }
  return hint;
}

Tensor CodecStep::State(absl::string_view suffix, const Shape& shape, absl::string_view init) {
  return editor_.Variable(suffix, {DType::kFloat32, shape}, init, {},
                          /*trainable=*/false);
}

Tensor CodecStep::OwnState(absl::string_view suffix, const Shape& shape, bool split) {
  std::vector<int64_t> dims = {ranks_};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return editor_.Variable(suffix, {DType::kFloat32, Shape(dims)}, "zeros", Along(Sbp::Split(0), split, 1),
                          /*trainable=*/false);
}

Tensor CodecStep::SumState(absl::string_view suffix, const Shape& shape) {
  return editor_.Variable(suffix, {DType::kFloat32, shape}, "zeros", Along(Sbp::Broadcast(), /*split=*/true, 0),
                          /*trainable=*/false);
}

Tensor CodecStep::SumOf(const Codec& codec, const Tensor& rows) {
  addends_ = Made(ReduceSum(rows, {0}), Sbp::Partial());
  return codec.sum(*this);
}

void CodecStep::Set(const Tensor& state, const Tensor& value) { editor_.Op("assign", {state, value}); }

Tensor CodecStep::AsRows(const Tensor& x) { return editor_.Op1("addends", {x}, {{"count", ranks_}}); }

Tensor CodecStep::InAddends(const Tensor& x, bool split) { return x.To(Along(Sbp::Partial(), split, 0)); }

Tensor CodecStep::Across(const Tensor& x) { return x.To({{axis_, Sbp::Split(1)}}); }

Tensor CodecStep::OwnRows(const Tensor& x) { return x.To({{axis_, Sbp::Split(0)}}); }

Tensor CodecStep::Everywhere(const Tensor& x) { return x.To({{axis_, Sbp::Broadcast()}}); }

double CodecStep::turns() const {
  return options_.participants == 0 ? 1 : static_cast<double>(ranks_) / static_cast<double>(options_.participants);
}

Tensor CodecStep::KeepUsed(const Tensor& x) {
  if (!counts_.valid()) {
    counts_ = size_.senders.valid() ? Cast(Scale(size_.senders, static_cast<double>(x.shape()[1])), DType::kInt32)
                                    : BroadcastTo(Reshape(size_.used, {1}), {ranks_});
    Made(counts_, Sbp::Broadcast());
  }
  return Made(KeepRows(x, counts_), Sbp::Split(0));
}

Tensor CodecStep::EverywhereUsed(const Tensor& x) {
  if (AllTravel()) return Everywhere(x);
  return Made(PadRows(Everywhere(KeepUsed(x))), Sbp::Broadcast());
}

Tensor CodecStep::OnlyUsed(const Tensor& x) {
  if (AllTravel()) return x;
  return Made(PadRows(KeepUsed(x)), Sbp::Split(0));
}

Tensor CodecStep::KeepUsedBytes(const Tensor& codes, int64_t unit) {
  if (!size_.used.valid()) return codes;
  std::vector<int64_t> rows = codes.shape().dims();
  rows.pop_back();
  const Tensor bytes = Cast(Scale(Cast(size_.used, DType::kFloat32), static_cast<double>(unit)), DType::kInt32);
  const std::vector<int64_t> ones(rows.size(), 1);
  const Tensor counts = Made(BroadcastTo(Reshape(bytes, ones), rows), Sbp::Broadcast());
  return Made(KeepRows(codes, counts), Sbp::Split(0));
}

Tensor CodecStep::Padded(const Tensor& codes) { return size_.used.valid() ? PadRows(codes) : codes; }

std::vector<Tensor> CodecStep::WithUsed(std::vector<Tensor> inputs) const {
  if (size_.used.valid()) inputs.push_back(size_.used);
  return inputs;
}

Tensor CodecStep::SumUsedColumns(const Tensor& x) {
  if (!size_.used.valid()) return x;
  const Tensor rows = Made(KeepRows(Made(Transpose(x, {1, 0}), Sbp::Partial()), size_.used), Sbp::Partial());
  return Transpose(Made(PadRows(Everywhere(rows)), Sbp::Broadcast()), {1, 0});
}

Tensor CodecStep::Made(const Tensor& x, Sbp sbp) {
  if (x.valid()) editor_.mutable_graph().value(x.id()).hint = {{axis_, sbp}};
  return x;
}

}  // namespace oneflow
