// PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS 2019): a step of power iteration, from the factor of the last step.
// With M the sum of the addends and of the errors of all ranks, which is summed nowhere,
//
//   P = orthonormal(M Q)        all-reduce of [n,r]
//   Q = Mᵀ P                    all-reduce of [m,r], kept for the next step
//   sum = P Qᵀ                  on every rank
//   error = M - sum             each rank's own addend, less its share of the sum
//
// Both products are linear in M, so they depend on the sum of the errors alone: how errors lie on ranks changes nothing
// but rounding. Where M has a rank of r or less and Q spans its rows, as a drawn Q does, the sum is M to rounding.
#include <algorithm>

#include "compiler/passes/edges/codec.h"
#include "oneflow_core/functional.h"

namespace oneflow {
namespace {

double Rank(double n, double m, double parameter) { return std::min({parameter, n, m}); }

double BytesOfFactors(double n, double m, double /*ranks*/, const CompressOptions& options) {
  return 4 * Rank(n, m, options.parameter) * (n + m);
}

Tensor SumByFactors(CodecStep& step) {
  GraphEditor& b = step.editor();
  const int64_t n = step.rows(), m = step.columns(), r = step.room();
  const Tensor error = step.OwnState("error", Shape({n, m}), /*split=*/true);
  const Tensor factor = step.State("factor", Shape({m, r}), "normal(1)");
  const Tensor addends = step.InAddends(step.addends() + ReduceSum(error, {0}), /*split=*/true);
  const Tensor p = b.Op1("orthonormalize", {step.SumUsedColumns(step.Made(MatMul(addends, factor), Sbp::Partial()))});
  const Tensor q = step.SumUsedColumns(step.Made(b.Op1("matmul_wgrad", {addends, p}), Sbp::Partial()));
  const Tensor sum = MatMul(p, q, /*transpose_b=*/true);
  step.Set(error, step.AsRows(addends) - sum / static_cast<double>(step.ranks()));
  // A column that depended on others has no product, as one that is not used. It starts anew: a gradient of few
  // directions must not take from the factor those in which the next one may lie.
  const Tensor squares = ReduceSum(Square(q), {0});
  const Tensor is_empty = b.Op1("equal", {squares, Scale(squares, 0)});
  step.Set(factor, b.Op1("where", {step.State("start", Shape({m, r}), "normal(1)"), q, is_empty}));
  return sum;
}

int64_t ColumnsOf(double n, double m, const CompressOptions& options) {
  return static_cast<int64_t>(Rank(n, m, options.parameter));
}

// A column of both factors follows from those before it alone, so that one iteration finds the factors of all ranks:
// the error of rank r is |x|^2 less the squares of the first r columns of xᵀ P.
Tensor ErrorsOfRanks(GraphEditor& b, const Tensor& x, const std::vector<int64_t>& ranks, const CompressOptions&) {
  constexpr int kIterations = 5;
  Tensor q = b.Variable("start", {DType::kFloat32, {x.shape()[1], ranks.back()}}, "normal(1)", {}, /*trainable=*/false);
  for (int i = 0; i < kIterations; ++i) {
    const Tensor p = b.Op1("orthonormalize", {MatMul(x, q)});
    q = b.Op1("matmul_wgrad", {x, p});
  }
  return SquaresBeyond(x, ReduceSum(Square(q), {0}), ranks);
}

}  // namespace

Codec PowerSgdCodec() {
  return {.name = "POWERSGD",
          .parameter = "rank",
          .least = 1,
          .most = 1 << 20,
          .is_whole = true,
          .bytes = BytesOfFactors,
          .sum = SumByFactors,
          .count = ColumnsOf,
          .errors = ErrorsOfRanks,
          .keeps_errors = true};
}

}  // namespace oneflow
