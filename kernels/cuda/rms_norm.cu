// rms_norm over the last dimension: y = x rstd gamma with rstd = 1/sqrt(mean of x^2 + epsilon), and its gradient.
//
//   h = x rstd,  g = dy gamma     dx = rstd (g - h mean(g h)),  dgamma = sum dy h
#include "kernels/cuda/norm.cuh"

namespace oneflow::cuda {
namespace {

struct RmsNorm {
  static constexpr int kParameters = 1;  // gamma
  static constexpr int kStatistics = 1;  // rstd

  template <int kTeam, typename T>
  static __device__ void Row(const Team<kTeam>& team, int64_t row, int64_t c, float epsilon,
                             const NormOperands<RmsNorm, T>& all) {
    const float* const gamma = all.parameters.of[0];
    const int64_t begin = row * c;
    float squares = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) {
      const float element = all.x.First(begin + i);
      squares += element * element;
    }
    const float rstd = 1.0f / sqrtf(Reduce<kTeam>(squares, SumOf()) / static_cast<float>(c) + epsilon);
    for (int64_t i = team.member(); i < c; i += kTeam) {
      all.y[begin + i] = Narrow<T>(all.x.at(begin + i) * rstd * gamma[i]);
    }
    if (team.member() == 0) all.statistics.of[0][row] = rstd;
  }

  template <int kTeam, typename T>
  static __device__ void GradRow(const Team<kTeam>& team, int64_t row, int64_t c,
                                 const NormGradOperands<RmsNorm, T>& all) {
    const T *const dy = all.dy + row * c, *const x = all.x + row * c;
    const float rstd = all.statistics.of[0][row];
    float sum_gh = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) sum_gh += Widen(dy[i]) * all.gamma[i] * (Widen(x[i]) * rstd);
    const float mean_gh = Reduce<kTeam>(sum_gh, SumOf()) / static_cast<float>(c);
    for (int64_t i = team.member(); i < c; i += kTeam) {
      const float g = Widen(dy[i]) * all.gamma[i];
      all.dx[row * c + i] = Narrow<T>(all.Other(row * c + i) + rstd * (g - Widen(x[i]) * rstd * mean_gh));
    }
  }

  // For dgamma.
  template <typename T>
  static __device__ Terms<1> TermsOf(int64_t row, int64_t at, const NormGradOperands<RmsNorm, T>& all) {
    return {Widen(all.dy[at]) * (Widen(all.x[at]) * all.statistics.of[0][row])};
  }
};

}  // namespace

KernelList RmsNormKernels() {
  return NormKernels<RmsNorm>("rms_norm", "rms_norm_grad", "add_rms_norm", "add_rms_norm_grad");
}

}  // namespace oneflow::cuda
