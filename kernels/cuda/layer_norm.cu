// layer_norm over the last dimension: y = (x - mean) rstd gamma + beta with rstd = 1/sqrt(variance + epsilon), and its
// gradient.
//
//   h = (x - mean) rstd,  g = dy gamma     dx = rstd (g - mean(g) - h mean(g h)),  dgamma = sum dy h,  dbeta = sum dy
//
// dx takes a team per row. add_layer_norm is one of a sum, which it gives too; add_layer_norm_grad adds what else is
// known of dx.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

template <int kTeam, typename T>
__global__ void NormKernel(int64_t rows, int64_t c, float epsilon, NormRows<T> x, const float* gamma, const float* beta,
                           T* y, float* means, float* rstds) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const int64_t begin = row * c;
    float sum = 0, squares = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) sum += x.First(begin + i);
    const float mean = Reduce<kTeam>(sum, SumOf()) / static_cast<float>(c);
    for (int64_t i = team.member(); i < c; i += kTeam) squares += (x.at(begin + i) - mean) * (x.at(begin + i) - mean);
    const float rstd = 1.0f / sqrtf(Reduce<kTeam>(squares, SumOf()) / static_cast<float>(c) + epsilon);
    for (int64_t i = team.member(); i < c; i += kTeam)
      y[begin + i] = Narrow<T>((x.at(begin + i) - mean) * rstd * gamma[i] + beta[i]);
    if (team.member() != 0) continue;
    means[row] = mean;
    rstds[row] = rstd;
  }
}

template <typename T>
struct GradInputs {
  const T* r;  // what dx is added to; null: nothing
  const T *dy, *x;
  const float *gamma, *mean, *rstd;
};

template <int kTeam, typename T>
__global__ void InputGradKernel(int64_t rows, int64_t c, GradInputs<T> in, T* dx) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const T* const dy = in.dy + row * c;
    const T* const x = in.x + row * c;
    const float mean = in.mean[row], rstd = in.rstd[row];
    float sum_g = 0, sum_gh = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) {
      const float g = Widen(dy[i]) * in.gamma[i];
      sum_g += g;
      sum_gh += g * ((Widen(x[i]) - mean) * rstd);
    }
    const float mean_g = Reduce<kTeam>(sum_g, SumOf()) / static_cast<float>(c);
    const float mean_gh = Reduce<kTeam>(sum_gh, SumOf()) / static_cast<float>(c);
    for (int64_t i = team.member(); i < c; i += kTeam) {
      const float h = (Widen(x[i]) - mean) * rstd;
      const float r = in.r == nullptr ? 0.0f : Widen(in.r[row * c + i]);
      dx[row * c + i] = Narrow<T>(r + rstd * (Widen(dy[i]) * in.gamma[i] - mean_g - h * mean_gh));
    }
  }
}

// in: x, gamma, beta; out: y, mean, rstd. Of a sum a and b are before the others, and x is.
template <typename T, bool kAdd>
const char* LayerNorm(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (rows == 0) return nullptr;
  const float epsilon = static_cast<float>(args.attrs->Double("epsilon", 1e-5));
  const auto launch = [&](auto kernel, int64_t rows_per_block) {
    return Launch({Stream(args), Blocks(rows, rows_per_block)}, kernel, rows, c, epsilon, NormRowsOf<T>(args, kAdd),
                  args.in[kAdd + 1].as<const float>(), args.in[kAdd + 2].as<const float>(), args.out[kAdd].as<T>(),
                  args.out[kAdd + 1].as<float>(), args.out[kAdd + 2].as<float>());
  };
  return c <= kWarpColumns ? launch(NormKernel<kWarp, T>, kThreads / kWarp) : launch(NormKernel<kThreads, T>, 1);
}

size_t GradWorkspace(const KernelArgs& args) { return ColumnSumsBytes<2>(Rows(args.in[0]), Columns(args.in[0])); }

// in: dy, x, gamma, mean, rstd, before them what dx is added to; out: dx, dgamma, dbeta.
template <typename T, bool kAdd>
const char* LayerNormGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (c == 0) return nullptr;
  const auto row = [&](int i) { return args.in[kAdd + i].as<const T>(); };
  const auto input = [&](int i) { return args.in[kAdd + i].as<const float>(); };
  const GradInputs<T> in = {kAdd ? args.in[0].as<const T>() : nullptr, row(0), row(1), input(2), input(3), input(4)};
  const cudaStream_t stream = Stream(args);
  if (rows > 0) {
    T* const dx = args.out[0].as<T>();
    const char* const error =
        c <= kWarpColumns ? Launch({stream, Blocks(rows, kThreads / kWarp)}, InputGradKernel<kWarp, T>, rows, c, in, dx)
                          : Launch({stream, Blocks(rows, 1)}, InputGradKernel<kThreads, T>, rows, c, in, dx);
    if (error != nullptr) return error;
  }
  const auto terms = [=] __device__(int64_t row, int64_t column) {
    const float dy = Widen(in.dy[row * c + column]);
    return Terms<2>{dy * ((Widen(in.x[row * c + column]) - in.mean[row]) * in.rstd[row]), dy};
  };
  const SumPointers<2> sums = {args.out[1].as<float>(), args.out[2].as<float>()};
  return ColumnSums<2>(stream, rows, c, terms, args.workspace, sums);
}

template <typename T>
const char* Norm(const KernelArgs& args) {
  return LayerNorm<T, false>(args);
}
template <typename T>
const char* AddNorm(const KernelArgs& args) {
  return LayerNorm<T, true>(args);
}
template <typename T>
const char* NormGrad(const KernelArgs& args) {
  return LayerNormGrad<T, false>(args);
}
template <typename T>
const char* AddNormGrad(const KernelArgs& args) {
  return LayerNormGrad<T, true>(args);
}

}  // namespace

KernelList LayerNormKernels() {
  return {OF_FLOAT_KERNELS("layer_norm", Norm), OF_FLOAT_KERNELS("add_layer_norm", AddNorm),
          OF_FLOAT_KERNELS("layer_norm_grad", NormGrad, GradWorkspace),
          OF_FLOAT_KERNELS("add_layer_norm_grad", AddNormGrad, GradWorkspace)};
}

}  // namespace oneflow::cuda
