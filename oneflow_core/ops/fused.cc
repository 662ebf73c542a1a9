// Ops that do in one pass over memory what some ops of a model do in several. The compiler makes them where layouts are
// known (compiler/passes/fusion_patterns.cc says of which parts); models do not name them and no gradient
// flows through them. Each is what its parts are, but that it rounds once, what it gives.
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ops/per_channel.h"
#include "oneflow_core/ops/per_row.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferChannelStatistics(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(2)}}));
  const TensorType& x = c.inputs[0];
  OF_RETURN_IF_ERROR(CheckHasElements(c, x));
  return Outputs({PerChannel(x), PerChannel(x)});
}

// x and, from input `first` on, gamma, beta, mean and var.
absl::Status CheckNorm(const InferContext& c, const TensorType& x, int first) {
  OF_RETURN_IF_ERROR(CheckPerChannel(c, x, first, {"gamma", "beta", "mean", "var"}));
  return CheckNotNegative(c.attrs, "epsilon");
}

absl::StatusOr<Types> InferBatchNormRelu(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(
      c, {{"x", kFloat, AtLeast(2)}, {"gamma", kFloat32}, {"beta", kFloat32}, {"mean", kFloat32}, {"var", kFloat32}}));
  OF_RETURN_IF_ERROR(CheckNorm(c, c.inputs[0], 1));
  return Outputs({c.inputs[0]});
}

absl::StatusOr<Types> InferBatchNormAddRelu(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(2)},
                                       {"gamma", kFloat32},
                                       {"beta", kFloat32},
                                       {"mean", kFloat32},
                                       {"var", kFloat32},
                                       {"r", kFloat}}));
  OF_RETURN_IF_ERROR(CheckNorm(c, c.inputs[0], 1));
  OF_RETURN_IF_ERROR(CheckSame("x", c.inputs[0], "r", c.inputs[5]));
  return Outputs({c.inputs[0]});
}

absl::StatusOr<Types> InferBatchNormReluSums(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat},
                                       {"x", kFloat, AtLeast(2)},
                                       {"gamma", kFloat32},
                                       {"beta", kFloat32},
                                       {"mean", kFloat32},
                                       {"var", kFloat32}}));
  const TensorType& x = c.inputs[1];
  OF_RETURN_IF_ERROR(CheckSame("dy", c.inputs[0], "x", x));
  OF_RETURN_IF_ERROR(CheckNorm(c, x, 2));
  return Outputs({PerChannel(x), PerChannel(x)});
}

absl::StatusOr<Types> InferBatchNormReluDx(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat},
                                       {"x", kFloat, AtLeast(2)},
                                       {"gamma", kFloat32},
                                       {"beta", kFloat32},
                                       {"mean", kFloat32},
                                       {"var", kFloat32},
                                       {"dgamma", kFloat32},
                                       {"dbeta", kFloat32}}));
  const TensorType& x = c.inputs[1];
  OF_RETURN_IF_ERROR(CheckSame("dy", c.inputs[0], "x", x));
  OF_RETURN_IF_ERROR(CheckNorm(c, x, 2));
  OF_RETURN_IF_ERROR(CheckPerChannel(c, x, 6, {"dgamma", "dbeta"}));
  return Outputs({x});
}

// The addends may be of any floating types, as sums that are not rounded are.
absl::StatusOr<Types> InferAddReluGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kNumber}, {"b", kNumber}, {"y", kFloat}}));
  const TensorType& y = c.inputs[2];
  for (int i = 0; i < 2; ++i) {
    const TensorType& addend = c.inputs[i];
    const char* const name = i == 0 ? "a" : "b";
    if (!IsFloating(addend.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", addend.ToString(), " but must be floating"));
    }
    if (addend.shape != y.shape || addend.ragged != y.ragged) return CheckSame(name, addend, "y", y);
  }
  return Outputs({y});
}

absl::StatusOr<Types> InferAddLayerNorm(const InferContext& c) {
  OF_RETURN_IF_ERROR(
      CheckOperands(c, {{"a", kFloat, AtLeast(1)}, {"b", kFloat}, {"gamma", kFloat32}, {"beta", kFloat32}}));
  const TensorType& x = c.inputs[0];
  OF_RETURN_IF_ERROR(CheckSame("a", x, "b", c.inputs[1]));
  OF_RETURN_IF_ERROR(CheckOnePerColumn(c, x, 2, {"gamma", "beta"}));
  OF_RETURN_IF_ERROR(CheckNotNegative(c.attrs, "epsilon"));
  return Outputs({x, x, OnePerRow(x), OnePerRow(x)});
}

absl::StatusOr<Types> InferAddRmsNorm(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kFloat, AtLeast(1)}, {"b", kFloat}, {"gamma", kFloat32}}));
  const TensorType& x = c.inputs[0];
  OF_RETURN_IF_ERROR(CheckSame("a", x, "b", c.inputs[1]));
  OF_RETURN_IF_ERROR(CheckOnePerColumn(c, x, 2, {"gamma"}));
  OF_RETURN_IF_ERROR(CheckNotNegative(c.attrs, "epsilon"));
  return Outputs({x, x, OnePerRow(x)});
}

absl::StatusOr<Types> InferAddLayerNormGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"r", kFloat},
                                       {"dy", kFloat},
                                       {"x", kFloat, AtLeast(1)},
                                       {"gamma", kFloat32},
                                       {"mean", kFloat32},
                                       {"rstd", kFloat32}}));
  const TensorType& x = c.inputs[2];
  OF_RETURN_IF_ERROR(CheckSame("r", c.inputs[0], "x", x));
  OF_RETURN_IF_ERROR(CheckSame("dy", c.inputs[1], "x", x));
  OF_RETURN_IF_ERROR(CheckOnePerColumn(c, x, 3, {"gamma"}));
  OF_RETURN_IF_ERROR(CheckOnePerRow(c, x, 4, {"mean", "rstd"}));
  return Outputs({x, c.inputs[3], c.inputs[3]});
}

absl::StatusOr<Types> InferAddRmsNormGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(
      c, {{"r", kFloat}, {"dy", kFloat}, {"x", kFloat, AtLeast(1)}, {"gamma", kFloat32}, {"rstd", kFloat32}}));
  const TensorType& x = c.inputs[2];
  OF_RETURN_IF_ERROR(CheckSame("r", c.inputs[0], "x", x));
  OF_RETURN_IF_ERROR(CheckSame("dy", c.inputs[1], "x", x));
  OF_RETURN_IF_ERROR(CheckOnePerColumn(c, x, 3, {"gamma"}));
  OF_RETURN_IF_ERROR(CheckOnePerRow(c, x, 4, {"rstd"}));
  return Outputs({x, c.inputs[3]});
}

absl::StatusOr<Types> InferBiasAddGelu(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"b", kFloat32}}));
  OF_RETURN_IF_ERROR(CheckOnePerColumn(c, c.inputs[0], 1, {"b"}));
  OF_RETURN_IF_ERROR(CheckLastAxis(c));
  return Outputs({c.inputs[0], c.inputs[0]});
}

absl::StatusOr<Types> InferGeluBiasGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat, AtLeast(1)}, {"h", kFloat}}));
  const TensorType& dy = c.inputs[0];
  OF_RETURN_IF_ERROR(CheckSame("dy", dy, "h", c.inputs[1]));
  OF_RETURN_IF_ERROR(CheckLastAxis(c));
  return Outputs({dy, {DType::kFloat32, {dy.shape.dims().back()}}});
}

absl::StatusOr<Types> InferMatmulBias(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kFloat32, AtLeast(1)}, {"w", kFloat32, Exactly(2)}, {"b", kFloat32}}));
  const TensorType &a = c.inputs[0], &w = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const bool transposed, BoolAttrOr(c.attrs, "transpose_b", false));
  OF_RETURN_IF_ERROR(CheckLastAxis(c));
  if (a.shape.dims().back() != w.shape[transposed ? 1 : 0]) {
    return absl::InvalidArgumentError(absl::StrCat("inner dimensions differ: a is ", a.ToString(), ", w is ",
                                                   w.ToString(), transposed ? " (transposed)" : ""));
  }
  TensorType y = a;
  std::vector<int64_t> sizes = a.shape.dims();
  sizes.back() = w.shape[transposed ? 0 : 1];
  y.shape = Shape(std::move(sizes));
  const TensorType b = {DType::kFloat32, {y.shape.dims().back()}};
  OF_RETURN_IF_ERROR(CheckType("b", c.inputs[2], b, absl::StrCat("w, which is ", w.ToString(), ",")));
  return Outputs({y});
}

std::string MatmulBiasRule(absl::Span<const TensorType>, const AttrMap& attrs) {
  return attrs.Bool("transpose_b") ? "...k,nk,n->...n; whole k; linear 0 2; linear 1 2"
                                   : "...k,kn,n->...n; whole k; linear 0 2; linear 1 2";
}

absl::StatusOr<Types> InferAddEmbeddingGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kFloat32, Exactly(2)}, {"dy", kFloat, AtLeast(1)}, {"ids", kIndex}}));
  const TensorType &a = c.inputs[0], &dy = c.inputs[1];
  TensorType ids = OnePerRow(dy);
  ids.dtype = DType::kInt32;
  OF_RETURN_IF_ERROR(CheckType("ids", c.inputs[2], ids, absl::StrCat("dy, which is ", dy.ToString(), ",")));
  OF_ASSIGN_OR_RETURN(const int64_t rows, IntAttr(c.attrs, "rows", 0));
  const TensorType dw = {DType::kFloat32, {rows, dy.shape.dims().back()}};
  OF_RETURN_IF_ERROR(CheckSame("a", a, "the gradient", dw));
  return Outputs({a});
}

// A shard of the table has its own rows.
AttrMap RowsOfShard(const AttrMap& attrs, absl::Span<const ShardType>, absl::Span<const ShardType> outputs) {
  return With(attrs, "rows", outputs[0].dims[0]);
}

}  // namespace

void AddFusedOps(OpRegistry& registry) {
  constexpr Precision kFollow = Precision::kFollow;
  registry.Add({.name = "channel_statistics",
                .infer = InferChannelStatistics,
                .flops = FlopsOfInput,
                .precision = kFollow,
                .blocks = BlocksByChannel});
  registry.Add({.name = "batch_norm_relu",
                .infer = InferBatchNormRelu,
                .in_place = {{0, 0}},
                .precision = kFollow,
                .full_inputs = {1, 2, 3, 4},
                .blocks = BlocksByChannel});
  registry.Add({.name = "batch_norm_add_relu",
                .infer = InferBatchNormAddRelu,
                .in_place = {{0, 0}, {5, 0}},
                .precision = kFollow,
                .full_inputs = {1, 2, 3, 4},
                .blocks = BlocksByChannel});
  registry.Add({.name = "batch_norm_relu_sums",
                .infer = InferBatchNormReluSums,
                .flops = FlopsOfInput,
                .precision = kFollow,
                .full_inputs = {2, 3, 4, 5},
                .blocks = BlocksByChannel});
  registry.Add({.name = "batch_norm_relu_dx",
                .infer = InferBatchNormReluDx,
                .in_place = {{0, 0}},
                .precision = kFollow,
                .full_inputs = {2, 3, 4, 5, 6, 7},
                .blocks = BlocksByChannel});
  registry.Add({.name = "add_relu_grad",
                .rule = "...,...,...->...; linear 0 1",
                .infer = InferAddReluGrad,
                .in_place = {{0, 0}, {1, 0}},
                .precision = kFollow,
                .blocks = BlocksByElement});
  registry.Add({.name = "matmul_bias",
                .rule = "...k,kn,n->...n; whole k; linear 0 2; linear 1 2",
                .rule_for = MatmulBiasRule,
                .infer = InferMatmulBias,
                .flops = FlopsOfProduct,
                .precision = Precision::kCompute,
                .full_inputs = {2}});
  registry.Add({.name = "bias_add_gelu",
                .rule = "...c,c->...c,...c",
                .infer = InferBiasAddGelu,
                .in_place = {{0, 0}},
                .precision = kFollow,
                .full_inputs = {1}});
  registry.Add({.name = "gelu_bias_grad",
                .rule = "...c,...c->...c,c; linear 0",
                .infer = InferGeluBiasGrad,
                .in_place = {{0, 0}},
                .precision = kFollow});
  registry.Add({.name = "add_embedding_grad",
                .infer = InferAddEmbeddingGrad,
                .shard_attrs = RowsOfShard,
                .flops = [](absl::Span<const TensorType> inputs, absl::Span<const TensorType>,
                            const AttrMap&) { return static_cast<double>(inputs[1].shape.count()); },
                .in_place = {{0, 0}},
                .precision = kFollow,
                .full_inputs = {0}});
  registry.Add({.name = "add_layer_norm",
                .rule = "...c,...c,c,c->...c,...c,...,...; whole c",
                .infer = InferAddLayerNorm,
                .in_place = {{0, 0}, {1, 0}},
                .precision = kFollow,
                .full_inputs = {2, 3}});
  registry.Add({.name = "add_rms_norm",
                .rule = "...c,...c,c->...c,...c,...; whole c",
                .infer = InferAddRmsNorm,
                .in_place = {{0, 0}, {1, 0}},
                .precision = kFollow,
                .full_inputs = {2}});
  registry.Add({.name = "add_layer_norm_grad",
                .rule = "...c,...c,...c,c,...,...->...c,c,c; whole c; linear 0 1",
                .infer = InferAddLayerNormGrad,
                .in_place = {{0, 0}},
                .precision = kFollow,
                .full_inputs = {3, 4, 5}});
  registry.Add({.name = "add_rms_norm_grad",
                .rule = "...c,...c,...c,c,...->...c,c; whole c; linear 0 1",
                .infer = InferAddRmsNormGrad,
                .in_place = {{0, 0}},
                .precision = kFollow,
                .full_inputs = {3, 4}});
}

}  // namespace oneflow::ops
