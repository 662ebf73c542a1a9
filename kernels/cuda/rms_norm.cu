// rms_norm over the last dimension: y = x rstd gamma with rstd = 1/sqrt(mean of x^2 + epsilon), and its gradient.
//
//   h = x rstd,  g = dy gamma     dx = rstd (g - h mean(g h)),  dgamma = sum dy h
#include "kernels/cuda/norm.cuh"

namespace oneflow::cuda {
namespace {

struct RmsNorm {
  static constexpr int kParameters = 1;  // gamma
  static constexpr int kStatistics = 1;  // rstd

  template <int kTeam, int kLanes, typename T>
  static __device__ void Row(const Team<kTeam>& team, int64_t row, int64_t c, float epsilon,
                             const NormOperands<RmsNorm, T>& all) {
    const int64_t begin = row * c;
    float squares = 0;
    ForOwnPacks<kLanes>(team, c, [&](int64_t i) {
      float x[kLanes];
      all.x.First(begin + i, x);
      for (int k = 0; k < kLanes; ++k) squares += x[k] * x[k];
    });
    const float rstd = 1.0f / sqrtf(Reduce<kTeam>(squares, SumOf()) / static_cast<float>(c) + epsilon);
    ForOwnPacks<kLanes>(team, c, [&](int64_t i) {
      float x[kLanes], gamma[kLanes];
      all.x.Again(begin + i, x);
      ReadPack(all.parameters.of[0] + i, gamma);
      for (int k = 0; k < kLanes; ++k) x[k] = x[k] * rstd * gamma[k];
      WritePack(all.y + begin + i, x);
    });
    if (team.member() == 0) all.statistics.of[0][row] = rstd;
  }

  template <int kTeam, int kLanes, typename T>
  static __device__ void GradRow(const Team<kTeam>& team, int64_t row, int64_t c,
                                 const NormGradOperands<RmsNorm, T>& all) {
    const int64_t begin = row * c;
    const float rstd = all.statistics.of[0][row];
    float sum_gh = 0;
    const auto normal = [rstd](float x) { return x * rstd; };
    const auto for_packs = [&](auto f) { ForGradPacks<kLanes>(team, begin, c, all, normal, f); };
    for_packs([&](int64_t, const float(&g)[kLanes], const float(&h)[kLanes]) {
      for (int k = 0; k < kLanes; ++k) sum_gh += g[k] * h[k];
    });
    const float mean_gh = Reduce<kTeam>(sum_gh, SumOf()) / static_cast<float>(c);
    for_packs([&](int64_t i, float(&g)[kLanes], const float(&h)[kLanes]) {
      for (int k = 0; k < kLanes; ++k) g[k] = rstd * (g[k] - h[k] * mean_gh);
      all.Write(begin + i, g);
    });
  }

  // For dgamma.
  template <int kLanes, typename T>
  static __device__ void TermsOf(int64_t row, const NormGradOperands<RmsNorm, T>& all, const float (&dy)[kLanes],
                                 const float (&x)[kLanes], float (&terms)[1][kLanes]) {
    const float rstd = all.statistics.of[0][row];
    for (int k = 0; k < kLanes; ++k) terms[0][k] = dy[k] * (x[k] * rstd);
  }
};

}  // namespace

KernelList RmsNormKernels() {
  return NormKernels<RmsNorm>("rms_norm", "rms_norm_grad", "add_rms_norm", "add_rms_norm_grad");
}

}  // namespace oneflow::cuda
