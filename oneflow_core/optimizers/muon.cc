// Muon (Jordan et al. 2024) for the matrices inside a network: the momentum is replaced by the nearest orthogonal
// matrix, roughly, by five iterations of Newton and Schulz on the whole matrix. Embeddings, the head and vectors are
// updated by AdamW (OptimizerRule::others).
//
//   m = momentum m + (1 - momentum) g,  u = m, or (1 - momentum) g + momentum m with Nesterov's momentum
//   X = u / max(|u|, 1e-7), and five times  A = X X^T,  X = a X + (b A + c A^2) X
//   w = w (1 - rate decay) - rate sqrt(max(1, columns / rows)) X
//
// A weight has a row for each input and a column for each output: the authors' matrices are its transpose, of which the
// step is the transpose. Of a matrix with more rows than columns A is X^T X, and X = a X + X (b A + c A^2). With
// match_rms the factor is 0.2 sqrt(max(rows, columns)), so that steps are as long as AdamW's. Products are of f32, but
// PyTorch and the authors round to bf16: elements of X differ from theirs by up to about 0.002.
#include <algorithm>
#include <cmath>

#include "oneflow_core/functional.h"
#include "oneflow_core/optimizer_step.h"
#include "oneflow_core/optimizers/optimizers.h"

namespace oneflow {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr int kIterations = 5;

Tensor Orthogonal(OptimizerStep& s, const Tensor& u) {
  const Tensor least = Constant(*u.builder(), {DType::kFloat32, {}}, 1e-7);
  Tensor x = Div(u, Maximum(Sqrt(s.SumOfSquares(u)), least));
  const bool tall = u.shape()[0] > u.shape()[1];
  for (int i = 0; i < kIterations; ++i) {
    const Tensor a = BatchMatMul(x, x, /*transpose_a=*/tall, /*transpose_b=*/!tall);
    const Tensor p = Add(Scale(a, kB), Scale(BatchMatMul(a, a), kC));
    x = Add(Scale(x, kA), tall ? BatchMatMul(x, p) : BatchMatMul(p, x));
  }
  return x;
}

void Muon(OptimizerStep& s) {
  const double momentum = s.Number("momentum");
  const double rows = static_cast<double>(s.weight().shape()[0]), columns = static_cast<double>(s.weight().shape()[1]);
  const Tensor m = OptimizerStep::Average(momentum, s.state("m"), s.gradient());
  const Tensor u = s.Flag("nesterov") ? OptimizerStep::Average(momentum, m, s.gradient()) : m;
  const double factor =
      s.Flag("match_rms") ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, columns / rows));
  s.SetState("m", m);
  s.SetWeight(Sub(s.Decayed(), Mul(Orthogonal(s, u), Scale(s.rate(), factor))));
}

}  // namespace

OptimizerRule MuonRule() {
  return {.name = "muon",
          .states = {{"m", "muon_momentum"}},
          .attributes = {{"momentum", 0.95, 1},
                         {"nesterov", 1, 0, /*is_flag=*/true},
                         {"match_rms", 0, 0, /*is_flag=*/true}},
          .build = Muon,
          .others = "adamw"};
}

}  // namespace oneflow
