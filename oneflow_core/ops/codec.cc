// What edges with a policy are made of (compiler/passes/edges/). addends speaks of ranks, not of logical tensors, and
// only the compiler adds it. quantize cuts the range of a row, which is a bucket, into 2^bits - 1 equal parts.
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferAddends(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat32}}));
  OF_ASSIGN_OR_RETURN(const int64_t count, IntAttr(c.attrs, "count", c.of_shards ? 0 : 1));
  std::vector<int64_t> dims = {count};
  dims.insert(dims.end(), c.inputs[0].shape.dims().begin(), c.inputs[0].shape.dims().end());
  return Outputs({{c.inputs[0].dtype, Shape(dims)}});
}

AttrMap AddendsOfShard(const AttrMap& attrs, absl::Span<const ShardType>, absl::Span<const ShardType> outputs) {
  AttrMap of_shard = attrs;
  of_shard.Set("count", outputs[0].dims[0]);
  return of_shard;
}

absl::StatusOr<Types> InferOrthonormalize(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat32, Exactly(2)}}));
  return Outputs({c.inputs[0]});
}

// Two passes of Gram-Schmidt, each of 4 n r (r + 1) / 2.
double FlopsOfOrthonormalize(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap&) {
  const double rows = static_cast<double>(inputs[0].shape[0]), columns = static_cast<double>(inputs[0].shape[1]);
  return 4 * rows * columns * (columns + 1);
}

absl::StatusOr<int64_t> BitsAttr(const AttrMap& attrs) {
  OF_ASSIGN_OR_RETURN(const int64_t bits, IntAttr(attrs, "bits", 1));
  if (bits > 8) return absl::InvalidArgumentError(absl::StrCat("attribute 'bits' is ", bits, " but must be in [1, 8]"));
  return bits;
}

TensorType WithColumns(const TensorType& x, DType dtype, int64_t columns) {
  std::vector<int64_t> dims(x.shape.dims().begin(), x.shape.dims().end());
  dims.back() = columns;
  return {dtype, Shape(dims)};
}

// Eight levels of b bits are b bytes.
absl::StatusOr<Types> InferQuantize(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat32, AtLeast(1)}}));
  OF_ASSIGN_OR_RETURN(const int64_t bits, BitsAttr(c.attrs));
  OF_RETURN_IF_ERROR(BoolAttrOr(c.attrs, "stochastic", false).status());
  OF_RETURN_IF_ERROR(CheckKeyAttr(c.attrs));
  const TensorType& x = c.inputs[0];
  const int64_t bucket = x.shape[x.shape.rank() - 1];
  if (bucket == 0 || bucket % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("x is ", x.ToString(), " but its last dimension must be a multiple of 8"));
  }
  return Outputs({WithColumns(x, DType::kUInt8, bucket / 8 * bits), WithColumns(x, DType::kFloat32, 2)});
}

absl::StatusOr<Types> InferDequantize(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"codes", kAny, AtLeast(1)}, {"ranges", kFloat32}}));
  OF_ASSIGN_OR_RETURN(const int64_t bits, BitsAttr(c.attrs));
  const TensorType& codes = c.inputs[0];
  OF_RETURN_IF_ERROR(CheckType("codes", codes, {DType::kUInt8, codes.shape}, "dequantize"));
  const int64_t bytes = codes.shape[codes.shape.rank() - 1];
  if (bytes == 0 || bytes % bits != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "codes is ", codes.ToString(), " but its last dimension must be a multiple of the ", bits, " bits"));
  }
  OF_RETURN_IF_ERROR(CheckType("ranges", c.inputs[1], WithColumns(codes, DType::kFloat32, 2),
                               absl::StrCat("codes, which is ", codes.ToString(), ",")));
  return Outputs({WithColumns(codes, DType::kFloat32, bytes / bits * 8)});
}

}  // namespace

void AddCodecOps(OpRegistry& registry) {
  registry.Add({.name = "addends", .infer = InferAddends, .shard_attrs = AddendsOfShard, .makes_rows = true});
  registry.Add({.name = "orthonormalize",
                .rule = "nr->nr; whole n r",
                .infer = InferOrthonormalize,
                .flops = FlopsOfOrthonormalize});
  registry.Add({.name = "quantize",
                .rule = "...c->...k,...r; whole c k r",
                .infer = InferQuantize,
                .flops = FlopsOfInput,
                .random = true});
  registry.Add({.name = "dequantize", .rule = "...k,...r->...c; linear 1; whole c k r", .infer = InferDequantize});
}

}  // namespace oneflow::ops
