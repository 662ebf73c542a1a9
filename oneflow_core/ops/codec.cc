// What edges with a policy are made of (compiler/passes/edges/). addends speaks of ranks, not of logical tensors, and
// only the compiler adds it. choose_codes gives of each tensor the count of one candidate (oneflow_core/code_choice.h);
// quantize cuts the range of a row, which is a bucket, into 2^bits - 1 equal parts.
#include "oneflow_core/code_choice.h"
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

// `operands`, and perhaps `used`: how many of the bits that rows have room for are used.
absl::Status CheckOperandsAndUsed(const InferContext& c, std::vector<Operand> operands) {
  if (c.inputs.size() > operands.size()) operands.push_back({"used", kIndex, Exactly(0)});
  return CheckOperands(c, operands);
}

std::string QuantizeRule(absl::Span<const TensorType> inputs, const AttrMap&) {
  return inputs.size() == 2 ? "...c,->...k,...r; whole c k r" : "...c->...k,...r; whole c k r";
}

std::string DequantizeRule(absl::Span<const TensorType> inputs, const AttrMap&) {
  return inputs.size() == 3 ? "...k,...r,->...c; linear 1; whole c k r" : "...k,...r->...c; linear 1; whole c k r";
}

// Eight levels of b bits are b bytes.
absl::StatusOr<Types> InferQuantize(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperandsAndUsed(c, {{"x", kFloat32, AtLeast(1)}}));
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
  OF_RETURN_IF_ERROR(CheckOperandsAndUsed(c, {{"codes", kAny, AtLeast(1)}, {"ranges", kFloat32}}));
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

absl::Status CheckIn(const char* name, int64_t number, int64_t least, int64_t most) {
  if (number >= least && number <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("attribute '", name, "' has ", number, " but must be in [", least, ", ", most, "]"));
}

// Errors of the candidates of all tensors, one tensor after another, as `counts` and `bytes` are. `sizes`: how many
// candidates each tensor has; `usual`: which of its own it has without a choice, unless there is an input for that.
absl::StatusOr<Types> InferChooseCodes(const InferContext& c) {
  std::vector<Operand> operands = {{"errors", kFloat32, Exactly(1)}};
  if (c.inputs.size() > 1) operands.push_back({"usual", kIndex, Exactly(1)});
  OF_RETURN_IF_ERROR(CheckOperands(c, operands));
  OF_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, IntsAttr(c.attrs, "sizes"));
  OF_ASSIGN_OR_RETURN(const std::vector<int64_t> usual, IntsAttr(c.attrs, "usual"));
  OF_ASSIGN_OR_RETURN(const double alpha, NumberAttr(c.attrs, "alpha"));
  if (!(alpha >= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("attribute 'alpha' is ", alpha, " but must be at least 1"));
  }
  if (usual.size() != sizes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'usual' has ", usual.size(), " numbers, but 'sizes' has ", sizes.size()));
  }
  if (sizes.size() > kMostCodedTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'sizes' is of ", sizes.size(), " tensors; there may be ", kMostCodedTensors));
  }
  int64_t all = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    OF_RETURN_IF_ERROR(CheckIn("sizes", sizes[i], 1, kMostCodeCandidates));
    OF_RETURN_IF_ERROR(CheckIn("usual", usual[i], 0, sizes[i] - 1));
    all += sizes[i];
  }
  OF_RETURN_IF_ERROR(CheckType("errors", c.inputs[0], {DType::kFloat32, {all}}, "attribute 'sizes'"));
  const TensorType of_each = {DType::kInt32, {static_cast<int64_t>(sizes.size())}};
  if (c.inputs.size() > 1) OF_RETURN_IF_ERROR(CheckType("usual", c.inputs[1], of_each, "attribute 'sizes'"));
  for (const char* name : {"counts", "bytes"}) {
    OF_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, IntsAttr(c.attrs, name));
    if (static_cast<int64_t>(numbers.size()) == all) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("attribute '", name, "' has ", numbers.size(), " numbers for ", all, " candidates"));
  }
  return Outputs({of_each});
}

}  // namespace

void AddCodecOps(OpRegistry& registry) {
  registry.Add({.name = "addends", .infer = InferAddends, .shard_attrs = AddendsOfShard, .makes_rows = true});
  registry.Add({.name = "orthonormalize",
                .rule = "nr->nr; whole n r",
                .infer = InferOrthonormalize,
                .flops = FlopsOfOrthonormalize});
  registry.Add(
      {.name = "quantize", .rule_for = QuantizeRule, .infer = InferQuantize, .flops = FlopsOfInput, .random = true});
  registry.Add({.name = "choose_codes", .kind = OpKind::kCall, .infer = InferChooseCodes});
  registry.Add({.name = "dequantize", .rule_for = DequantizeRule, .infer = InferDequantize});
}

}  // namespace oneflow::ops
