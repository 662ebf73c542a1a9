#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/passes/edges/codec.h"

namespace oneflow {

absl::Span<const Codec> Codecs() {
  static const Codec kCodecs[] = {PowerSgdCodec(), TopKCodec(), QuantCodec(), RandKCodec()};
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

CodecStep::CodecStep(GraphEditor& editor, const Tensor& addends, std::string axis, int64_t ranks, SbpHint whole,
                     const CompressOptions& options)
    : editor_(editor),
      addends_(addends),
      axis_(std::move(axis)),
      ranks_(ranks),
      whole_(std::move(whole)),
      options_(options) {}

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

void CodecStep::Set(const Tensor& state, const Tensor& value) { editor_.Op("assign", {state, value}); }

Tensor CodecStep::AsRows(const Tensor& x) { return editor_.Op1("addends", {x}, {{"count", ranks_}}); }

Tensor CodecStep::InAddends(const Tensor& x, bool split) { return x.To(Along(Sbp::Partial(), split, 0)); }

Tensor CodecStep::Across(const Tensor& x) { return x.To({{axis_, Sbp::Split(1)}}); }

Tensor CodecStep::Everywhere(const Tensor& x) { return x.To({{axis_, Sbp::Broadcast()}}); }

Tensor CodecStep::Made(const Tensor& x, Sbp sbp) {
  if (x.valid()) editor_.mutable_graph().value(x.id()).hint = {{axis_, sbp}};
  return x;
}

}  // namespace oneflow
