// batch_matmul: c[..,m,n] = sum over k of a[..,m,k] * b[..,k,n], one product per leading index. transpose_a: a is
// [..,k,m]; transpose_b: b is [..,n,k].
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferBatchMatmul(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kFloat, AtLeast(2)}, {"b", kFloat, AtLeast(2)}}));
  const TensorType &a = c.inputs[0], &b = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const bool transpose_a, BoolAttrOr(c.attrs, "transpose_a", false));
  OF_ASSIGN_OR_RETURN(const bool transpose_b, BoolAttrOr(c.attrs, "transpose_b", false));
  const int rank = a.shape.rank();
  const std::vector<int64_t>&a_sizes = a.shape.dims(), &b_sizes = b.shape.dims();
  if (b.shape.rank() != rank || !std::equal(a_sizes.begin(), a_sizes.end() - 2, b_sizes.begin())) {
    return absl::InvalidArgumentError(
        absl::StrCat("leading dimensions differ: a is ", a.ToString(), ", b is ", b.ToString()));
  }
  const int row = rank - 2, column = rank - 1;
  if (a.shape[transpose_a ? row : column] != b.shape[transpose_b ? column : row]) {
    return absl::InvalidArgumentError(absl::StrCat("inner dimensions differ: a is ", a.ToString(),
                                                   transpose_a ? " (transposed), b is " : ", b is ", b.ToString(),
                                                   transpose_b ? " (transposed)" : ""));
  }
  std::vector<int64_t> sizes = a_sizes;
  sizes[row] = a.shape[transpose_a ? column : row];
  sizes[column] = b.shape[transpose_b ? row : column];
  OF_ASSIGN_OR_RETURN(const DType out, ProductDType(c.attrs, a.dtype));
  return Outputs({{out, Shape(std::move(sizes))}});
}

// With c = a b:  da = dc bT, db = aT dc; with a transposed operand the gradient is transposed too:
//
//   stored   gradient            stored   gradient
//   a        dc b'T              b        a'T dc          a', b': the operands as they are multiplied
//   aT       b' dcT              bT       dcT a'
absl::Status BatchMatmulGrad(GradContext& c) {
  const Tensor a = c.input(0), b = c.input(1);
  const DType dtype = a.type().dtype;
  const Tensor dc = *c.output_grad(0, dtype);
  const bool ta = c.attrs().Bool("transpose_a"), tb = c.attrs().Bool("transpose_b");
  const auto product = [&](Tensor left, bool transpose_left, Tensor right, bool transpose_right) {
    return c.Call1("batch_matmul", {left, right},
                   Unrounded({{"transpose_a", transpose_left}, {"transpose_b", transpose_right}}, dtype));
  };
  if (c.needs_grad(0)) c.SetInputGrad(0, ta ? product(b, tb, dc, true) : product(dc, false, b, !tb));
  if (c.needs_grad(1)) c.SetInputGrad(1, tb ? product(dc, true, a, ta) : product(a, !ta, dc, false));
  return absl::OkStatus();
}

std::string BatchMatmulRule(absl::Span<const TensorType>, const AttrMap& attrs) {
  return absl::StrCat(attrs.Bool("transpose_a") ? "...km," : "...mk,", attrs.Bool("transpose_b") ? "...nk" : "...kn",
                      "->...mn; linear 0; linear 1");
}

double BatchMatmulFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                        const AttrMap& attrs) {
  const Shape& a = inputs[0].shape;
  const int64_t inner = a[a.rank() - (attrs.Bool("transpose_a") ? 2 : 1)];
  return 2.0 * static_cast<double>(outputs[0].shape.count()) * static_cast<double>(inner);
}

}  // namespace

void AddBatchMatmulOps(OpRegistry& registry) {
  registry.Add({.name = "batch_matmul",
                .rule = "...mk,...kn->...mn; linear 0; linear 1",
                .rule_for = BatchMatmulRule,
                .infer = InferBatchMatmul,
                .grad = BatchMatmulGrad,
                .flops = BatchMatmulFlops,
                .precision = Precision::kCompute,
                .has_out_dtype = true});
}

}  // namespace oneflow::ops
