// The head of a model of many classes and its loss, softmax_cross_entropy of matmul(x, w), in one op, whose kernel
// never has the logits of all rows at once. The compiler makes these where layouts are known
// (compiler/passes/fusion_patterns.cc); models do not name them and no gradient flows through them.
//
//   matmul_cross_entropy         loss alone
//   matmul_cross_entropy_grad    loss, and the gradients dx and dw of the sum of dloss * loss
//   packed_...                   the same on weights in panels (oneflow_core/packed.h): w as forward reads it, wt as dx
//                                needs it
//
// Logits are f32 and never rounded; their gradient is rounded to the type of x, as the operand of products that it is.
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ops/per_row.h"
#include "oneflow_core/packed.h"

namespace oneflow::ops {
namespace {

std::string Because(const TensorType& x) { return absl::StrCat("x, which is ", x.ToString(), ","); }

// Input `first` is labels, and the next one, if there is any, is dloss: one per row of x.
absl::Status CheckRows(const InferContext& c, size_t first) {
  const TensorType& x = c.inputs[0];
  TensorType per_row = OnePerRow(x);
  if (first + 1 < c.inputs.size()) OF_RETURN_IF_ERROR(CheckType("dloss", c.inputs[first + 1], per_row, Because(x)));
  per_row.dtype = DType::kInt32;
  return CheckType("labels", c.inputs[first], per_row, Because(x));
}

// The classes, of w[k,n] or w[n,k].
absl::StatusOr<int64_t> Classes(const InferContext& c) {
  const TensorType &x = c.inputs[0], &w = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const bool transposed, BoolAttrOr(c.attrs, "transpose_b", false));
  if (x.shape.dims().back() != w.shape[transposed ? 1 : 0]) {
    return absl::InvalidArgumentError(absl::StrCat("inner dimensions differ: x is ", x.ToString(), ", w is ",
                                                   w.ToString(), transposed ? " (transposed)" : ""));
  }
  return w.shape[transposed ? 0 : 1];
}

// The classes, of a packed [k,n].
absl::StatusOr<int64_t> PackedClasses(const InferContext& c) {
  const TensorType &x = c.inputs[0], &w = c.inputs[1];
  const int64_t k = x.shape.dims().back(), n = kPanelColumns * w.shape[0];
  if (x.dtype != DType::kBFloat16 || !HasWholePanels(k, n) || w.shape != PackedShape(k, n)) {
    return absl::InvalidArgumentError(absl::StrCat("w is ", w.ToString(), " but x, which is ", x.ToString(),
                                                   ", needs bf16[n/", kPanelColumns, ",", k / kPairedRows, ",",
                                                   kPanelColumns, ",", kPairedRows, "]"));
  }
  return n;
}

absl::StatusOr<Types> InferLoss(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"w", kFloat, Exactly(2)}, {"labels", kIndex}}));
  OF_RETURN_IF_ERROR(Classes(c).status());
  OF_RETURN_IF_ERROR(CheckRows(c, 2));
  return Outputs({OnePerRow(c.inputs[0])});
}

absl::StatusOr<Types> InferPackedLoss(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"w", kFloat, Exactly(4)}, {"labels", kIndex}}));
  OF_RETURN_IF_ERROR(PackedClasses(c).status());
  OF_RETURN_IF_ERROR(CheckRows(c, 2));
  return Outputs({OnePerRow(c.inputs[0])});
}

// Of `n` classes, dw being [n,k] if `transposed`.
absl::StatusOr<Types> LossAndGradients(const InferContext& c, int64_t n, bool transposed) {
  const TensorType& x = c.inputs[0];
  if (c.attrs.Has("dz_dtype")) {
    OF_ASSIGN_OR_RETURN(const DType dz, DTypeAttr(c.attrs, "dz_dtype"));
    if (dz != x.dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("the gradient of logits is rounded to ", Name(dz), ", but x is ", x.ToString()));
    }
  }
  TensorType dx = x;
  OF_ASSIGN_OR_RETURN(dx.dtype, ProductDType(c.attrs, x.dtype));
  const int64_t k = x.shape.dims().back();
  return Outputs({OnePerRow(x), dx, {DType::kFloat32, transposed ? Shape{n, k} : Shape{k, n}}});
}

absl::StatusOr<Types> InferGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(
      c, {{"x", kFloat, AtLeast(1)}, {"w", kFloat, Exactly(2)}, {"labels", kIndex}, {"dloss", kFloat32}}));
  OF_ASSIGN_OR_RETURN(const int64_t n, Classes(c));
  OF_RETURN_IF_ERROR(CheckRows(c, 2));
  OF_ASSIGN_OR_RETURN(const bool transposed, BoolAttrOr(c.attrs, "transpose_b", false));
  OF_ASSIGN_OR_RETURN(const bool of_dx, BoolAttrOr(c.attrs, "dx_transpose_b", false));
  OF_ASSIGN_OR_RETURN(const bool of_dw, BoolAttrOr(c.attrs, "dw_transpose", false));
  if (of_dx == transposed || of_dw != transposed) {
    const auto text = [](bool x) { return x ? "true" : "false"; };
    return absl::InvalidArgumentError(absl::StrCat(
        "attribute 'transpose_b' is ", text(transposed), ", so that 'dx_transpose_b' must be ", text(!transposed),
        " and 'dw_transpose' ", text(transposed), ", but they are ", text(of_dx), " and ", text(of_dw)));
  }
  return LossAndGradients(c, n, transposed);
}

absl::StatusOr<Types> InferPackedGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)},
                                       {"w", kFloat, Exactly(4)},
                                       {"wt", kFloat, Exactly(4)},
                                       {"labels", kIndex},
                                       {"dloss", kFloat32}}));
  OF_ASSIGN_OR_RETURN(const int64_t n, PackedClasses(c));
  const int64_t k = c.inputs[0].shape.dims().back();
  if (!HasWholePanels(n, k) || c.inputs[2].shape != PackedShape(n, k)) {
    return absl::InvalidArgumentError(absl::StrCat("wt is ", c.inputs[2].ToString(), ", but is to be w, which is ",
                                                   c.inputs[1].ToString(), ", transposed"));
  }
  OF_RETURN_IF_ERROR(CheckRows(c, 3));
  OF_ASSIGN_OR_RETURN(const bool transposed, BoolAttrOr(c.attrs, "dw_transpose", false));
  return LossAndGradients(c, n, transposed);
}

std::string LossRule(absl::Span<const TensorType>, const AttrMap& attrs) {
  return attrs.Bool("transpose_b") ? "...k,nk,...->...; whole k n" : "...k,kn,...->...; whole k n";
}
std::string GradRule(absl::Span<const TensorType>, const AttrMap& attrs) {
  return attrs.Bool("transpose_b") ? "...k,nk,...,...->...,...k,nk; whole k n"
                                   : "...k,kn,...,...->...,...k,kn; whole k n";
}
std::string PackedGradRule(absl::Span<const TensorType>, const AttrMap& attrs) {
  return absl::StrCat("...k,abcd,efgh,...,...->...,...k,", attrs.Bool("dw_transpose") ? "nk" : "kn",
                      "; whole k n a b c d e f g h");
}

// Of one product; the weight has as many elements in panels.
double LossFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs, const AttrMap&) {
  return 2.0 * static_cast<double>(outputs[0].shape.count()) * static_cast<double>(inputs[1].shape.count());
}
double GradFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs, const AttrMap& attrs) {
  return 3 * LossFlops(inputs, outputs, attrs);
}

}  // namespace

void AddMatmulCrossEntropyOps(OpRegistry& registry) {
  constexpr Precision kCompute = Precision::kCompute;
  registry.Add({.name = "matmul_cross_entropy",
                .rule = "...k,kn,...->...; whole k n",
                .rule_for = LossRule,
                .infer = InferLoss,
                .flops = LossFlops,
                .precision = kCompute});
  registry.Add({.name = "matmul_cross_entropy_grad",
                .rule = "...k,kn,...,...->...,...k,kn; whole k n",
                .rule_for = GradRule,
                .infer = InferGrad,
                .flops = GradFlops,
                .precision = kCompute,
                .full_inputs = {3}});
  registry.Add({.name = "packed_matmul_cross_entropy",
                .rule = "...k,abcd,...->...; whole k a b c d",
                .infer = InferPackedLoss,
                .flops = LossFlops,
                .precision = kCompute});
  registry.Add({.name = "packed_matmul_cross_entropy_grad",
                .rule = "...k,abcd,efgh,...,...->...,...k,kn; whole k n a b c d e f g h",
                .rule_for = PackedGradRule,
                .infer = InferPackedGrad,
                .flops = GradFlops,
                .precision = kCompute,
                .full_inputs = {4}});
}

}  // namespace oneflow::ops
