// matmul: y[..,n] = sum over k of a[..,k] * w[k,n], w being [n,k] if transpose_b. The weight is a matrix; all leading
// dimensions of a are rows. Its gradients are two ops, so that they can be scheduled apart:
//
//   da = matmul(dy, w) with the other transpose_b          dgrad: on the way to the loss's other variables
//   dw = matmul_wgrad(a, dy)                               wgrad: all rows summed; nothing waits for it but the update
//
// Products of narrow numbers are summed in f32; `out_dtype` says what becomes of the sum. Gradients are not rounded.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

int64_t LastSize(const TensorType& type) { return type.shape.dims().back(); }

absl::StatusOr<Types> InferMatmul(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kFloat, AtLeast(1)}, {"w", kFloat, Exactly(2)}}));
  const TensorType &a = c.inputs[0], &w = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const bool transposed, BoolAttrOr(c.attrs, "transpose_b", false));
  if (LastSize(a) != w.shape[transposed ? 1 : 0]) {
    return absl::InvalidArgumentError(absl::StrCat("inner dimensions differ: a is ", a.ToString(), ", w is ",
                                                   w.ToString(), transposed ? " (transposed)" : ""));
  }
  std::vector<int64_t> sizes = a.shape.dims();
  sizes.back() = w.shape[transposed ? 0 : 1];
  OF_ASSIGN_OR_RETURN(const DType out, ProductDType(c.attrs, a.dtype));
  return Outputs({{out, Shape(std::move(sizes))}});
}

absl::Status MatmulGrad(GradContext& c) {
  const bool transposed = c.attrs().Bool("transpose_b");
  const DType dtype = c.input(0).type().dtype;
  const Tensor dy = *c.output_grad(0, dtype);
  if (c.needs_grad(0)) {
    c.SetInputGrad(0, c.Call1("matmul", {dy, c.input(1)}, Unrounded({{"transpose_b", !transposed}}, dtype)));
  }
  if (c.needs_grad(1)) {
    c.SetInputGrad(1, c.Call1("matmul_wgrad", {c.input(0), dy}, Unrounded({{"transpose", transposed}}, dtype)));
  }
  return absl::OkStatus();
}

std::string MatmulRule(absl::Span<const TensorType>, const AttrMap& attrs) {
  return attrs.Bool("transpose_b") ? "...k,nk->...n; linear 0; linear 1" : "...k,kn->...n; linear 0; linear 1";
}

absl::StatusOr<Types> InferWgrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"dy", kFloat, AtLeast(1)}}));
  const TensorType &x = c.inputs[0], &dy = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const bool transposed, BoolAttrOr(c.attrs, "transpose", false));
  std::vector<int64_t> rows = x.shape.dims(), dy_rows = dy.shape.dims();
  rows.pop_back();
  dy_rows.pop_back();
  if (rows != dy_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("leading dimensions differ: x is ", x.ToString(), ", dy is ", dy.ToString()));
  }
  const int64_t k = LastSize(x), n = LastSize(dy);
  OF_ASSIGN_OR_RETURN(const DType out, ProductDType(c.attrs, x.dtype));
  return Outputs({{out, transposed ? Shape{n, k} : Shape{k, n}}});
}

std::string MatMulWgradRule(absl::Span<const TensorType>, const AttrMap& attrs) {
  return attrs.Bool("transpose") ? "...k,...n->nk; linear 0; linear 1" : "...k,...n->kn; linear 0; linear 1";
}

double WgradFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap&) {
  return 2.0 * static_cast<double>(inputs[0].shape.count()) * static_cast<double>(LastSize(inputs[1]));
}

}  // namespace

void AddMatmulOps(OpRegistry& registry) {
  registry.Add({.name = "matmul",
                .rule = "...k,kn->...n; linear 0; linear 1",
                .rule_for = MatmulRule,
                .infer = InferMatmul,
                .grad = MatmulGrad,
                .flops = FlopsOfProduct,
                .precision = Precision::kCompute,
                .has_out_dtype = true,
                .packed = "packed_matmul"});
  registry.Add({.name = "matmul_wgrad",
                .rule = "...k,...n->kn; linear 0; linear 1",
                .rule_for = MatMulWgradRule,
                .infer = InferWgrad,
                .flops = WgradFlops,
                .precision = Precision::kCompute,
                .has_out_dtype = true});
}

}  // namespace oneflow::ops
