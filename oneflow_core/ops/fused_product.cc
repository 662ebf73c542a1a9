// What the compiler makes of a product by a weight in panels and of what follows it
// (compiler/passes/fusion_patterns.cc): a bias, a gelu behind it, the gradients of both, and sums of several products.
// Like all fused ops each is what its parts are, but that it rounds once, what it gives; models do not name them and no
// gradient flows through them.
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ops/packed_product.h"
#include "oneflow_core/ops/per_row.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<TensorType> BiasedType(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kFloat, AtLeast(1)}, {"w", kFloat, Exactly(4)}, {"b", kFloat32}}));
  OF_RETURN_IF_ERROR(CheckLastAxis(c));
  OF_ASSIGN_OR_RETURN(const DType out, ProductDType(c.attrs, c.inputs[0].dtype));
  OF_ASSIGN_OR_RETURN(TensorType y, PackedProductType(c, 0, out));
  OF_RETURN_IF_ERROR(CheckOnePerColumn(c, y, 2, {"b"}));
  return y;
}
absl::StatusOr<Types> InferPackedBias(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(TensorType y, BiasedType(c));
  return Outputs({std::move(y)});
}
absl::StatusOr<Types> InferPackedBiasGelu(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(TensorType y, BiasedType(c));
  return Outputs({y, y});
}

absl::StatusOr<Types> InferPackedGeluBiasGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat, AtLeast(1)}, {"w", kFloat, Exactly(4)}, {"h", kFloat}}));
  OF_RETURN_IF_ERROR(CheckLastAxis(c));
  OF_ASSIGN_OR_RETURN(TensorType d, PackedProductType(c, 0, c.inputs[0].dtype));
  OF_RETURN_IF_ERROR(CheckSame("the product", d, "h", c.inputs[2]));
  const TensorType db = {DType::kFloat32, {d.shape.dims().back()}};
  return Outputs({std::move(d), db});
}

absl::StatusOr<Types> InferSumPacked(const InferContext& c) {
  if (c.inputs.size() == 4) {
    OF_RETURN_IF_ERROR(CheckOperands(
        c,
        {{"a", kFloat, AtLeast(1)}, {"u", kFloat, Exactly(4)}, {"b", kFloat, AtLeast(1)}, {"v", kFloat, Exactly(4)}}));
  } else {
    OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kFloat, AtLeast(1)},
                                         {"u", kFloat, Exactly(4)},
                                         {"b", kFloat, AtLeast(1)},
                                         {"v", kFloat, Exactly(4)},
                                         {"c", kFloat, AtLeast(1)},
                                         {"w", kFloat, Exactly(4)}}));
  }
  OF_ASSIGN_OR_RETURN(const DType out, ProductDType(c.attrs, c.inputs[0].dtype));
  OF_ASSIGN_OR_RETURN(TensorType sum, PackedProductType(c, 0, out));
  for (int a = 2; a < static_cast<int>(c.inputs.size()); a += 2) {
    OF_ASSIGN_OR_RETURN(const TensorType other, PackedProductType(c, a, out));
    OF_RETURN_IF_ERROR(CheckSame("a product", other, "the first", sum));
  }
  return Outputs({std::move(sum)});
}

double FlopsOfProducts(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs, const AttrMap&) {
  double terms = 0;
  for (size_t a = 0; a < inputs.size(); a += 2) terms += static_cast<double>(inputs[a].shape.dims().back());
  return 2.0 * static_cast<double>(outputs[0].shape.count()) * terms;
}

}  // namespace

void AddFusedProductOps(OpRegistry& registry) {
  registry.Add({.name = "packed_matmul_bias",
                .infer = InferPackedBias,
                .flops = FlopsOfProduct,
                .precision = Precision::kCompute,
                .full_inputs = {2},
                .has_out_dtype = true});
  registry.Add({.name = "packed_matmul_bias_gelu",
                .infer = InferPackedBiasGelu,
                .flops = FlopsOfProduct,
                .precision = Precision::kCompute,
                .full_inputs = {2},
                .has_out_dtype = true});
  registry.Add({.name = "packed_matmul_gelu_bias_grad",
                .infer = InferPackedGeluBiasGrad,
                .flops = FlopsOfProduct,
                .precision = Precision::kCompute});
  registry.Add({.name = "sum_packed_matmul",
                .infer = InferSumPacked,
                .flops = FlopsOfProducts,
                .precision = Precision::kCompute,
                .has_out_dtype = true});
}

}  // namespace oneflow::ops
