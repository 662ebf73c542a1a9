// rms_norm over the last dimension: y = x rstd gamma with rstd = 1/sqrt(mean of x^2 + epsilon), and its gradient.
//
//   h = x rstd,  g = dy gamma     dx = rstd (g - h mean(g h)),  dgamma = sum dy h
//
// dx takes a team per row.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

template <int kTeam>
__global__ void NormKernel(int64_t rows, int64_t c, float epsilon, const float* all_x, const float* gamma, float* y,
                           float* rstds) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const float* const x = all_x + row * c;
    float squares = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) squares += x[i] * x[i];
    const float rstd = 1.0f / sqrtf(Reduce<kTeam>(squares, SumOf()) / static_cast<float>(c) + epsilon);
    for (int64_t i = team.member(); i < c; i += kTeam) y[row * c + i] = x[i] * rstd * gamma[i];
    if (team.member() == 0) rstds[row] = rstd;
  }
}

struct GradInputs {
  const float *dy, *x, *gamma, *rstd;
};

template <int kTeam>
__global__ void InputGradKernel(int64_t rows, int64_t c, GradInputs in, float* dx) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const float* const dy = in.dy + row * c;
    const float* const x = in.x + row * c;
    const float rstd = in.rstd[row];
    float sum_gh = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) sum_gh += dy[i] * in.gamma[i] * (x[i] * rstd);
    const float mean_gh = Reduce<kTeam>(sum_gh, SumOf()) / static_cast<float>(c);
    for (int64_t i = team.member(); i < c; i += kTeam) {
      dx[row * c + i] = rstd * (dy[i] * in.gamma[i] - x[i] * rstd * mean_gh);
    }
  }
}

// in: x, gamma; out: y, rstd.
const char* RmsNorm(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (rows == 0) return nullptr;
  const float epsilon = static_cast<float>(args.attrs->Double("epsilon", 1e-5));
  const auto launch = [&](auto kernel, int64_t rows_per_block) {
    return Launch({Stream(args), Blocks(rows, rows_per_block)}, kernel, rows, c, epsilon, args.in[0].as<const float>(),
                  args.in[1].as<const float>(), args.out[0].as<float>(), args.out[1].as<float>());
  };
  return c <= kWarpColumns ? launch(NormKernel<kWarp>, kThreads / kWarp) : launch(NormKernel<kThreads>, 1);
}

size_t GradWorkspace(const KernelArgs& args) { return ColumnSumsBytes<1>(Rows(args.in[0]), Columns(args.in[0])); }

// in: dy, x, gamma, rstd; out: dx, dgamma.
const char* RmsNormGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (c == 0) return nullptr;
  const auto input = [&](int i) { return args.in[i].as<const float>(); };
  const GradInputs in = {input(0), input(1), input(2), input(3)};
  const cudaStream_t stream = Stream(args);
  if (rows > 0) {
    float* const dx = args.out[0].as<float>();
    const char* const error =
        c <= kWarpColumns ? Launch({stream, Blocks(rows, kThreads / kWarp)}, InputGradKernel<kWarp>, rows, c, in, dx)
                          : Launch({stream, Blocks(rows, 1)}, InputGradKernel<kThreads>, rows, c, in, dx);
    if (error != nullptr) return error;
  }
  const auto terms = [=] __device__(int64_t row, int64_t column) {
    return Terms<1>{in.dy[row * c + column] * (in.x[row * c + column] * in.rstd[row])};
  };
  return ColumnSums<1>(stream, rows, c, terms, args.workspace, {args.out[1].as<float>()});
}

}  // namespace

KernelList RmsNormKernels() {
  return {{"rms_norm", DType::kFloat32, RmsNorm}, {"rms_norm_grad", DType::kFloat32, RmsNormGrad, GradWorkspace}};
}

}  // namespace oneflow::cuda
