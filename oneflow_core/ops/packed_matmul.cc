// pack_weight, packed_matmul: a weight laid out for the products of a processor (oneflow_core/packed.h), and the
// product that reads it so. The compiler makes both of a matmul (compiler/passes/pack_weights.cc), where layouts are
// known; models do not name them and no gradient flows through them. pack_weight_both_ways is two pack_weight of one w,
// the second transposed.
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ops/packed_product.h"
#include "oneflow_core/packed.h"

namespace oneflow::ops {
namespace {

// What is packed of w, which is [k, n], or [n, k] if transposed.
absl::StatusOr<TensorType> PackedType(const TensorType& w, bool transposed) {
  if (w.dtype == DType::kFloat16) {
    return absl::InvalidArgumentError(absl::StrCat("w is ", w.ToString(), " but must be f32 or bf16"));
  }
  const int64_t k = w.shape[transposed ? 1 : 0], n = w.shape[transposed ? 0 : 1];
  if (!HasWholePanels(k, n)) {
    return absl::InvalidArgumentError(absl::StrCat("w is ", w.ToString(), transposed ? " (transposed)" : "",
                                                   ", but panels take a multiple of ", kPanelRows, " rows and of ",
                                                   kPanelColumns, " columns"));
  }
  return TensorType{DType::kBFloat16, PackedShape(k, n)};
}

absl::StatusOr<Types> InferPack(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"w", kFloat, Exactly(2)}}));
  OF_ASSIGN_OR_RETURN(const bool transposed, BoolAttrOr(c.attrs, "transpose", false));
  OF_ASSIGN_OR_RETURN(TensorType packed, PackedType(c.inputs[0], transposed));
  return Outputs({std::move(packed)});
}

absl::StatusOr<Types> InferPackBothWays(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"w", kFloat, Exactly(2)}}));
  OF_ASSIGN_OR_RETURN(TensorType packed, PackedType(c.inputs[0], false));
  OF_ASSIGN_OR_RETURN(TensorType transposed, PackedType(c.inputs[0], true));
  return Outputs({std::move(packed), std::move(transposed)});
}

absl::StatusOr<Types> InferPackedMatmul(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kFloat, AtLeast(1)}, {"w", kFloat, Exactly(4)}}));
  OF_ASSIGN_OR_RETURN(const DType out, ProductDType(c.attrs, c.inputs[0].dtype));
  OF_ASSIGN_OR_RETURN(TensorType y, PackedProductType(c, 0, out));
  return Outputs({std::move(y)});
}

}  // namespace

void AddPackedMatmulOps(OpRegistry& registry) {
  registry.Add({.name = "pack_weight", .infer = InferPack, .packs = true});
  registry.Add({.name = "pack_weight_both_ways", .infer = InferPackBothWays, .packs = true});
  registry.Add({.name = "packed_matmul",
                .infer = InferPackedMatmul,
                .flops = FlopsOfProduct,
                .precision = Precision::kCompute,
                .has_out_dtype = true});
}

}  // namespace oneflow::ops
