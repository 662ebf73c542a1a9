// rms_norm over the last dimension: y = x rstd gamma with rstd = 1/sqrt(mean of x^2 + epsilon), and its gradient.
//
//   h = x rstd,  g = dy gamma     dx = rstd (g - h mean(g h)),  dgamma = sum dy h
//
// dx takes a team per row. add_rms_norm is one of a sum, which it gives too; add_rms_norm_grad adds what else is known
// of dx.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

template <int kTeam, typename T>
__global__ void NormKernel(int64_t rows, int64_t c, float epsilon, NormRows<T> x, const float* gamma, T* y,
                           float* rstds) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const int64_t begin = row * c;
    float squares = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) {
      const float element = x.First(begin + i);
      squares += element * element;
    }
    const float rstd = 1.0f / sqrtf(Reduce<kTeam>(squares, SumOf()) / static_cast<float>(c) + epsilon);
    for (int64_t i = team.member(); i < c; i += kTeam) y[begin + i] = Narrow<T>(x.at(begin + i) * rstd * gamma[i]);
    if (team.member() == 0) rstds[row] = rstd;
  }
}

template <typename T>
struct GradInputs {
  const T* r;  // what dx is added to; null: nothing
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
      const float r = in.r == nullptr ? 0.0f : Widen(in.r[row * c + i]);
      dx[row * c + i] = Narrow<T>(r + rstd * (Widen(dy[i]) * in.gamma[i] - Widen(x[i]) * rstd * mean_gh));
    }
  }
}

// in: x, gamma; out: y, rstd. Of a sum a and b are before the others, and x is.
template <typename T, bool kAdd>
const char* RmsNorm(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (rows == 0) return nullptr;
  const float epsilon = static_cast<float>(args.attrs->Double("epsilon", 1e-5));
  const auto launch = [&](auto kernel, int64_t rows_per_block) {
    return Launch({Stream(args), Blocks(rows, rows_per_block)}, kernel, rows, c, epsilon, NormRowsOf<T>(args, kAdd),
                  args.in[kAdd + 1].as<const float>(), args.out[kAdd].as<T>(), args.out[kAdd + 1].as<float>());
  };
  return c <= kWarpColumns ? launch(NormKernel<kWarp, T>, kThreads / kWarp) : launch(NormKernel<kThreads, T>, 1);
}

size_t GradWorkspace(const KernelArgs& args) { return ColumnSumsBytes<1>(Rows(args.in[0]), Columns(args.in[0])); }

// in: dy, x, gamma, rstd, before them what dx is added to; out: dx, dgamma.
template <typename T, bool kAdd>
const char* RmsNormGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (c == 0) return nullptr;
  const auto row = [&](int i) { return args.in[kAdd + i].as<const T>(); };
  const auto input = [&](int i) { return args.in[kAdd + i].as<const float>(); };
  const GradInputs<T> in = {kAdd ? args.in[0].as<const T>() : nullptr, row(0), row(1), input(2), input(3)};
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

template <typename T>
const char* Norm(const KernelArgs& args) {
  return RmsNorm<T, false>(args);
}
template <typename T>
const char* AddNorm(const KernelArgs& args) {
  return RmsNorm<T, true>(args);
}
template <typename T>
const char* NormGrad(const KernelArgs& args) {
  return RmsNormGrad<T, false>(args);
}
template <typename T>
const char* AddNormGrad(const KernelArgs& args) {
  return RmsNormGrad<T, true>(args);
}

}  // namespace

KernelList RmsNormKernels() {
  return {OF_FLOAT_KERNELS("rms_norm", Norm), OF_FLOAT_KERNELS("add_rms_norm", AddNorm),
          OF_FLOAT_KERNELS("rms_norm_grad", NormGrad, GradWorkspace),
          OF_FLOAT_KERNELS("add_rms_norm_grad", AddNormGrad, GradWorkspace)};
}

}  // namespace oneflow::cuda
