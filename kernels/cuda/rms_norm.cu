// rms_norm over the last dimension: y = x rstd gamma with rstd = 1/sqrt(mean of x^2 + epsilon), and its gradient.
//
//   h = x rstd,  g = dy gamma     dx = rstd (g - h mean(g h)),  dgamma = sum dy h
//
// dx takes a team per row.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

template <int kTeam, typename T>
__global__ void NormKernel(int64_t rows, int64_t c, float epsilon, const T* all_x, const float* gamma, T* y,
                           float* rstds) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const T* const x = all_x + row * c;
    float squares = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) squares += Widen(x[i]) * Widen(x[i]);
    const float rstd = 1.0f / sqrtf(Reduce<kTeam>(squares, SumOf()) / static_cast<float>(c) + epsilon);
    for (int64_t i = team.member(); i < c; i += kTeam) y[row * c + i] = Narrow<T>(Widen(x[i]) * rstd * gamma[i]);
    if (team.member() == 0) rstds[row] = rstd;
  }
}

template <typename T>
struct GradInputs {
  const T *dy, *x;
  const float *gamma, *rstd;
};

template <int kTeam, typename T>
__global__ void InputGradKernel(int64_t rows, int64_t c, GradInputs<T> in, T* dx) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const T* const dy = in.dy + row * c;
    const T* const x = in.x + row * c;
    const float rstd = in.rstd[row];
    float sum_gh = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) sum_gh += Widen(dy[i]) * in.gamma[i] * (Widen(x[i]) * rstd);
    const float mean_gh = Reduce<kTeam>(sum_gh, SumOf()) / static_cast<float>(c);
    for (int64_t i = team.member(); i < c; i += kTeam) {
      dx[row * c + i] = Narrow<T>(rstd * (Widen(dy[i]) * in.gamma[i] - Widen(x[i]) * rstd * mean_gh));
    }
  }
}

// in: x, gamma; out: y, rstd.
template <typename T>
const char* RmsNorm(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (rows == 0) return nullptr;
  const float epsilon = static_cast<float>(args.attrs->Double("epsilon", 1e-5));
  const auto launch = [&](auto kernel, int64_t rows_per_block) {
    return Launch({Stream(args), Blocks(rows, rows_per_block)}, kernel, rows, c, epsilon, args.in[0].as<const T>(),
                  args.in[1].as<const float>(), args.out[0].as<T>(), args.out[1].as<float>());
  };
  return c <= kWarpColumns ? launch(NormKernel<kWarp, T>, kThreads / kWarp) : launch(NormKernel<kThreads, T>, 1);
}

size_t GradWorkspace(const KernelArgs& args) { return ColumnSumsBytes<1>(Rows(args.in[0]), Columns(args.in[0])); }

// in: dy, x, gamma, rstd; out: dx, dgamma.
template <typename T>
const char* RmsNormGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (c == 0) return nullptr;
  const auto input = [&](int i) { return args.in[i].as<const float>(); };
  const GradInputs<T> in = {args.in[0].as<const T>(), args.in[1].as<const T>(), input(2), input(3)};
  const cudaStream_t stream = Stream(args);
  if (rows > 0) {
    T* const dx = args.out[0].as<T>();
    const char* const error =
        c <= kWarpColumns ? Launch({stream, Blocks(rows, kThreads / kWarp)}, InputGradKernel<kWarp, T>, rows, c, in, dx)
                          : Launch({stream, Blocks(rows, 1)}, InputGradKernel<kThreads, T>, rows, c, in, dx);
    if (error != nullptr) return error;
  }
  const auto terms = [=] __device__(int64_t row, int64_t column) {
    return Terms<1>{Widen(in.dy[row * c + column]) * (Widen(in.x[row * c + column]) * in.rstd[row])};
  };
  return ColumnSums<1>(stream, rows, c, terms, args.workspace, {args.out[1].as<float>()});
}

}  // namespace

KernelList RmsNormKernels() {
  return {OF_FLOAT_KERNELS("rms_norm", RmsNorm), OF_FLOAT_KERNELS("rms_norm_grad", RmsNormGrad, GradWorkspace)};
}

}  // namespace oneflow::cuda
