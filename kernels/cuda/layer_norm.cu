// layer_norm over the last dimension: y = (x - mean) rstd gamma + beta with rstd = 1/sqrt(variance + epsilon), and its
// gradient.
//
//   h = (x - mean) rstd,  g = dy gamma     dx = rstd (g - mean(g) - h mean(g h)),  dgamma = sum dy h,  dbeta = sum dy
#include "kernels/cuda/norm.cuh"

namespace oneflow::cuda {
namespace {

struct LayerNorm {
  static constexpr int kParameters = 2;  // gamma, beta
  static constexpr int kStatistics = 2;  // mean, rstd

  template <int kTeam, typename T>
  static __device__ void Row(const Team<kTeam>& team, int64_t row, int64_t c, float epsilon,
                             const NormOperands<LayerNorm, T>& all) {
    const float *const gamma = all.parameters.of[0], *const beta = all.parameters.of[1];
    const NormRows<T>& x = all.x;
    const int64_t begin = row * c;
    float sum = 0, squares = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) sum += x.First(begin + i);
    const float mean = Reduce<kTeam>(sum, SumOf()) / static_cast<float>(c);
    for (int64_t i = team.member(); i < c; i += kTeam) squares += (x.at(begin + i) - mean) * (x.at(begin + i) - mean);
    const float rstd = 1.0f / sqrtf(Reduce<kTeam>(squares, SumOf()) / static_cast<float>(c) + epsilon);
    for (int64_t i = team.member(); i < c; i += kTeam) {
      all.y[begin + i] = Narrow<T>((x.at(begin + i) - mean) * rstd * gamma[i] + beta[i]);
    }
    if (team.member() != 0) return;
    all.statistics.of[0][row] = mean;
    all.statistics.of[1][row] = rstd;
  }

  template <int kTeam, typename T>
  static __device__ void GradRow(const Team<kTeam>& team, int64_t row, int64_t c,
                                 const NormGradOperands<LayerNorm, T>& all) {
    const T *const dy = all.dy + row * c, *const x = all.x + row * c;
    const float mean = all.statistics.of[0][row], rstd = all.statistics.of[1][row];
    float sum_g = 0, sum_gh = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) {
      const float g = Widen(dy[i]) * all.gamma[i];
      sum_g += g;
      sum_gh += g * ((Widen(x[i]) - mean) * rstd);
    }
    const float mean_g = Reduce<kTeam>(sum_g, SumOf()) / static_cast<float>(c);
    const float mean_gh = Reduce<kTeam>(sum_gh, SumOf()) / static_cast<float>(c);
    for (int64_t i = team.member(); i < c; i += kTeam) {
      const float h = (Widen(x[i]) - mean) * rstd, other = all.Other(row * c + i);
      all.dx[row * c + i] = Narrow<T>(other + rstd * (Widen(dy[i]) * all.gamma[i] - mean_g - h * mean_gh));
    }
  }

  // For dgamma and dbeta.
  template <typename T>
  static __device__ Terms<2> TermsOf(int64_t row, int64_t at, const NormGradOperands<LayerNorm, T>& all) {
    const float dy = Widen(all.dy[at]);
    return {dy * ((Widen(all.x[at]) - all.statistics.of[0][row]) * all.statistics.of[1][row]), dy};
  }
};

}  // namespace

KernelList LayerNormKernels() {
  return NormKernels<LayerNorm>("layer_norm", "layer_norm_grad", "add_layer_norm", "add_layer_norm_grad");
}

}  // namespace oneflow::cuda
