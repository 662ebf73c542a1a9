// rms_norm over the last dimension: y = x rstd gamma with rstd = 1/sqrt(mean of x^2 + epsilon), and its gradient.
//
//   h = x rstd,  g = dy gamma     dx = rstd (g - h mean(g h)),  dgamma = sum dy h
//
// dx takes a team per row. The sum over rows is cut into splits of rows and the splits are summed in order.
#include <algorithm>

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

constexpr int kLines = kThreads / kWarp;  // rows that a block reads at a time, 32 columns of each

// Sums of a split of rows, for 32 columns: partial[split][c].
__global__ void ColumnSumsKernel(int64_t rows, int64_t c, int64_t splits, GradInputs in, float* partial) {
  __shared__ float sums[kLines][kWarp];
  const int lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  const int64_t strips = (c + kWarp - 1) / kWarp;
  for (int64_t task = blockIdx.x; task < strips * splits; task += gridDim.x) {
    const int64_t column = task % strips * kWarp + lane, split = task / strips;
    const int64_t end = rows * (split + 1) / splits;
    float dgamma = 0;
    for (int64_t row = rows * split / splits + line; row < end && column < c; row += kLines) {
      dgamma += in.dy[row * c + column] * (in.x[row * c + column] * in.rstd[row]);
    }
    __syncthreads();  // the last task's sums are read
    sums[line][lane] = dgamma;
    __syncthreads();
    if (line == 0 && column < c) {
      float total = 0;
      for (int i = 0; i < kLines; ++i) total += sums[i][lane];
      partial[split * c + column] = total;
    }
  }
}

// At least 64 rows each, and no more than the second pass adds up quickly.
int64_t RowSplits(int64_t rows) { return std::max<int64_t>(1, std::min<int64_t>(128, rows / 64)); }

// in: x, gamma; out: y, rstd.
const char* RmsNorm(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (rows == 0) return nullptr;
  const float epsilon = static_cast<float>(args.attrs->Double("epsilon", 1e-5));
  const auto launch = [&](auto kernel, int64_t rows_per_block) {
    kernel<<<Blocks(rows, rows_per_block), kThreads, 0, Stream(args)>>>(
        rows, c, epsilon, args.in[0].as<const float>(), args.in[1].as<const float>(), args.out[0].as<float>(),
        args.out[1].as<float>());
    return LaunchError();
  };
  return c <= kWarpColumns ? launch(NormKernel<kWarp>, kThreads / kWarp) : launch(NormKernel<kThreads>, 1);
}

// A sum of c per split of rows.
size_t GradWorkspace(const KernelArgs& args) {
  return static_cast<size_t>(RowSplits(Rows(args.in[0])) * Columns(args.in[0])) * sizeof(float);
}

// in: dy, x, gamma, rstd; out: dx, dgamma.
const char* RmsNormGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]), splits = RowSplits(rows);
  if (c == 0) return nullptr;
  const auto input = [&](int i) { return args.in[i].as<const float>(); };
  const GradInputs in = {input(0), input(1), input(2), input(3)};
  const cudaStream_t stream = Stream(args);
  if (rows > 0) {
    float* const dx = args.out[0].as<float>();
    if (c <= kWarpColumns) {
      InputGradKernel<kWarp><<<Blocks(rows, kThreads / kWarp), kThreads, 0, stream>>>(rows, c, in, dx);
    } else {
      InputGradKernel<kThreads><<<Blocks(rows, 1), kThreads, 0, stream>>>(rows, c, in, dx);
    }
    if (const char* error = LaunchError()) return error;
  }
  float* const partial = static_cast<float*>(args.workspace);
  const int64_t tasks = (c + kWarp - 1) / kWarp * splits;
  ColumnSumsKernel<<<Blocks(tasks, 1), kThreads, 0, stream>>>(rows, c, splits, in, partial);
  if (const char* error = LaunchError()) return error;
  float* const dgamma = args.out[1].as<float>();
  return ForEach(stream, c, [=] __device__(int64_t i) {
    float total = 0;
    for (int64_t split = 0; split < splits; ++split) total += partial[split * c + i];
    dgamma[i] = total;
  });
}

}  // namespace

KernelList RmsNormKernels() {
  return {{"rms_norm", DType::kFloat32, RmsNorm}, {"rms_norm_grad", DType::kFloat32, RmsNormGrad, GradWorkspace}};
}

}  // namespace oneflow::cuda
