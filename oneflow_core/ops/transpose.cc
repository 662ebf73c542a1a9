// transpose: dimension i of y is dimension perm[i] of x. Its gradient is the inverse permutation.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

// The permutation q with q[p[i]] = i; empty if `p` is no permutation of 0 .. rank-1.
std::vector<int64_t> Inverse(const std::vector<int64_t>& p, int rank) {
  if (static_cast<int>(p.size()) != rank) return {};
  std::vector<int64_t> inverse(p.size(), -1);
  for (int i = 0; i < rank; ++i) {
    if (p[i] < 0 || p[i] >= rank || inverse[p[i]] >= 0) return {};
    inverse[p[i]] = i;
  }
  return inverse;
}

absl::StatusOr<Types> InferTranspose(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x"}}));
  const TensorType& x = c.inputs[0];
  OF_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, IntsAttr(c.attrs, "perm"));
  if (Inverse(perm, x.shape.rank()).size() != x.shape.dims().size()) {
    return absl::InvalidArgumentError(absl::StrCat("attribute 'perm' is ", Shape(perm).ToString(),
                                                   " but must permute the dimensions of x, which is ", x.ToString()));
  }
  std::vector<int64_t> sizes;
  for (int64_t dim : perm) sizes.push_back(x.shape[static_cast<int>(dim)]);
  return Outputs({{x.dtype, Shape(std::move(sizes))}});
}

absl::Status TransposeGrad(GradContext& c) {
  const std::vector<int64_t> inverse = Inverse(c.attrs().Ints("perm"), c.input(0).shape().rank());
  c.SetInputGrad(0, c.Call1("transpose", {*c.output_grad(0)}, {{"perm", inverse}}));
  return absl::OkStatus();
}

}  // namespace

void AddTransposeOps(OpRegistry& registry) {
  registry.Add({.name = "transpose", .infer = InferTranspose, .grad = TransposeGrad, .precision = Precision::kFollow});
}

}  // namespace oneflow::ops
