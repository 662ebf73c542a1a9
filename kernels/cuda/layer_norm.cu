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

  template <int kTeam, int kLanes, typename T>
  static __device__ void Row(const Team<kTeam>& team, int64_t row, int64_t c, float epsilon,
                             const NormOperands<LayerNorm, T>& all) {
    const int64_t begin = row * c;
    float sum = 0, squares = 0;
    ForOwnPacks<kLanes>(team, c, [&](int64_t i) {
      float x[kLanes];
      all.x.First(begin + i, x);
      for (int k = 0; k < kLanes; ++k) sum += x[k];
    });
    const float mean = Reduce<kTeam>(sum, SumOf()) / static_cast<float>(c);
    ForOwnPacks<kLanes>(team, c, [&](int64_t i) {
      float x[kLanes];
      all.x.Again(begin + i, x);
      for (int k = 0; k < kLanes; ++k) squares += (x[k] - mean) * (x[k] - mean);
    });
    const float rstd = 1.0f / sqrtf(Reduce<kTeam>(squares, SumOf()) / static_cast<float>(c) + epsilon);
    ForOwnPacks<kLanes>(team, c, [&](int64_t i) {
      float x[kLanes], gamma[kLanes], beta[kLanes];
      all.x.Again(begin + i, x);
      ReadPack(all.parameters.of[0] + i, gamma);
      ReadPack(all.parameters.of[1] + i, beta);
      for (int k = 0; k < kLanes; ++k) x[k] = (x[k] - mean) * rstd * gamma[k] + beta[k];
      WritePack(all.y + begin + i, x);
    });
    if (team.member() != 0) return;
    all.statistics.of[0][row] = mean;
    all.statistics.of[1][row] = rstd;
  }

  template <int kTeam, int kLanes, typename T>
  static __device__ void GradRow(const Team<kTeam>& team, int64_t row, int64_t c,
                                 const NormGradOperands<LayerNorm, T>& all) {
    const int64_t begin = row * c;
    const float mean = all.statistics.of[0][row], rstd = all.statistics.of[1][row];
    float sum_g = 0, sum_gh = 0;
    const auto normal = [mean, rstd](float x) { return (x - mean) * rstd; };
    const auto for_packs = [&](auto f) { ForGradPacks<kLanes>(team, begin, c, all, normal, f); };
    for_packs([&](int64_t, const float(&g)[kLanes], const float(&h)[kLanes]) {
      for (int k = 0; k < kLanes; ++k) {
        sum_g += g[k];
        sum_gh += g[k] * h[k];
      }
    });
    const float mean_g = Reduce<kTeam>(sum_g, SumOf()) / static_cast<float>(c);
    const float mean_gh = Reduce<kTeam>(sum_gh, SumOf()) / static_cast<float>(c);
    for_packs([&](int64_t i, float(&g)[kLanes], const float(&h)[kLanes]) {
      for (int k = 0; k < kLanes; ++k) g[k] = rstd * (g[k] - mean_g - h[k] * mean_gh);
      all.Write(begin + i, g);
    });
  }

  // For dgamma and dbeta.
  template <int kLanes, typename T>
  static __device__ void TermsOf(int64_t row, const NormGradOperands<LayerNorm, T>& all, const float (&dy)[kLanes],
                                 const float (&x)[kLanes], float (&terms)[2][kLanes]) {
    const float mean = all.statistics.of[0][row], rstd = all.statistics.of[1][row];
    for (int k = 0; k < kLanes; ++k) {
      terms[0][k] = dy[k] * ((x[k] - mean) * rstd);
      terms[1][k] = dy[k];
    }
  }
};

}  // namespace

KernelList LayerNormKernels() {
  return NormKernels<LayerNorm>("layer_norm", "layer_norm_grad", "add_layer_norm", "add_layer_norm_grad");
}

}  // namespace oneflow::cuda
