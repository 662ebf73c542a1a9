// layer_norm over the last dimension: y = (x - mean) rstd gamma + beta with rstd = 1/sqrt(variance + epsilon), and its gradient.
//
//   h = (x - mean) rstd,  g = dy gamma     dx = rstd (g - mean(g) - h mean(g h)),  dgamma = sum dy h,  dbeta = sum dy
//
// dx takes a team per row. The sums over rows are cut into splits of rows and the splits are summed in order.
#include <algorithm>

#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

template <int kTeam>
__global__ void NormKernel(int64_t rows, int64_t c, float epsilon, const float* all_x, const float* gamma,
                           const float* beta, float* y, float* means, float* rstds) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const float* const x = all_x + row * c;
    float sum = 0, squares = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) sum += x[i];
    const float mean = Reduce<kTeam>(sum, SumOf()) / static_cast<float>(c);
    for (int64_t i = team.member(); i < c; i += kTeam) squares += (x[i] - mean) * (x[i] - mean);
    const float rstd = 1.0f / sqrtf(Reduce<kTeam>(squares, SumOf()) / static_cast<float>(c) + epsilon);
    for (int64_t i = team.member(); i < c; i += kTeam) y[row * c + i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
    if (team.member() != 0) continue;
    means[row] = mean;
    rstds[row] = rstd;
  }
}

struct GradInputs {
  const float *dy, *x, *gamma, *mean, *rstd;
};

template <int kTeam>
__global__ void InputGradKernel(int64_t rows, int64_t c, GradInputs in, float* dx) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const float* const dy = in.dy + row * c;
    const float* const x = in.x + row * c;
    const float mean = in.mean[row], rstd = in.rstd[row];
    float sum_g = 0, sum_gh = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) {
      const float g = dy[i] * in.gamma[i];
      sum_g += g;
      sum_gh += g * ((x[i] - mean) * rstd);
    }
    const float mean_g = Reduce<kTeam>(sum_g, SumOf()) / static_cast<float>(c);
    const float mean_gh = Reduce<kTeam>(sum_gh, SumOf()) / static_cast<float>(c);
    for (int64_t i = team.member(); i < c; i += kTeam) {
      dx[row * c + i] = rstd * (dy[i] * in.gamma[i] - mean_g - (x[i] - mean) * rstd * mean_gh);
    }
  }
}

constexpr int kLines = kThreads / kWarp;  // rows that a block reads at a time, 32 columns of each

// Sums of a split of rows, for 32 columns: partial[split][dgamma, dbeta][c].
__global__ void ColumnSumsKernel(int64_t rows, int64_t c, int64_t splits, GradInputs in, float* partial) {
  __shared__ float sums[2][kLines][kWarp];
  const int lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  const int64_t strips = (c + kWarp - 1) / kWarp;
  for (int64_t task = blockIdx.x; task < strips * splits; task += gridDim.x) {
    const int64_t column = task % strips * kWarp + lane, split = task / strips;
    const int64_t end = rows * (split + 1) / splits;
    float dgamma = 0, dbeta = 0;
    for (int64_t row = rows * split / splits + line; row < end && column < c; row += kLines) {
      const float dy = in.dy[row * c + column];
      dgamma += dy * ((in.x[row * c + column] - in.mean[row]) * in.rstd[row]);
      dbeta += dy;
    }
    __syncthreads();  // the last task's sums are read
    sums[0][line][lane] = dgamma;
    sums[1][line][lane] = dbeta;
    __syncthreads();
    if (line < 2 && column < c) {
      float total = 0;
      for (int i = 0; i < kLines; ++i) total += sums[line][i][lane];
      partial[(split * 2 + line) * c + column] = total;
    }
  }
}

// At least 64 rows each, and no more than the second pass adds up quickly.
int64_t RowSplits(int64_t rows) { return std::max<int64_t>(1, std::min<int64_t>(128, rows / 64)); }

const char* LayerNorm(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (rows == 0) return nullptr;
  const float epsilon = static_cast<float>(args.attrs->Double("epsilon", 1e-5));
  const auto launch = [&](auto kernel, int64_t rows_per_block) {
    kernel<<<Blocks(rows, rows_per_block), kThreads, 0, Stream(args)>>>(
        rows, c, epsilon, args.in[0].as<const float>(), args.in[1].as<const float>(), args.in[2].as<const float>(),
        args.out[0].as<float>(), args.out[1].as<float>(), args.out[2].as<float>());
    return LaunchError();
  };
  return c <= kWarpColumns ? launch(NormKernel<kWarp>, kThreads / kWarp) : launch(NormKernel<kThreads>, 1);
}

// Two sums of c per split of rows.
size_t GradWorkspace(const KernelArgs& args) {
  return static_cast<size_t>(RowSplits(Rows(args.in[0])) * 2 * Columns(args.in[0])) * sizeof(float);
}

// in: dy, x, gamma, mean, rstd; out: dx, dgamma, dbeta.
const char* LayerNormGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]), splits = RowSplits(rows);
  if (c == 0) return nullptr;
  const auto input = [&](int i) { return args.in[i].as<const float>(); };
  const GradInputs in = {input(0), input(1), input(2), input(3), input(4)};
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
  float* const dbeta = args.out[2].as<float>();
  return ForEach(stream, 2 * c, [=] __device__(int64_t i) {
    float total = 0;
    for (int64_t split = 0; split < splits; ++split) total += partial[split * 2 * c + i];
    (i < c ? dgamma : dbeta)[i % c] = total;
  });
}

}  // namespace

KernelList LayerNormKernels() {
  return {{"layer_norm", DType::kFloat32, LayerNorm},
          {"layer_norm_grad", DType::kFloat32, LayerNormGrad, GradWorkspace}};
}

}  // namespace oneflow::cuda
