// softmax over the last dimension and its gradient dx = y (dy - sum(dy y)). A team per row.
#include <cmath>

#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

template <int kTeam>
__global__ void SoftmaxKernel(int64_t rows, int64_t c, const float* all_x, float* all_y) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const float* const x = all_x + row * c;
    float* const y = all_y + row * c;
    float top = -INFINITY, sum = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) top = MaxOf()(top, x[i]);
    top = Reduce<kTeam>(top, MaxOf());
    for (int64_t i = team.member(); i < c; i += kTeam) sum += y[i] = expf(x[i] - top);
    const float inverse = 1.0f / Reduce<kTeam>(sum, SumOf());
    for (int64_t i = team.member(); i < c; i += kTeam) y[i] *= inverse;
  }
}

template <int kTeam>
__global__ void SoftmaxGradKernel(int64_t rows, int64_t c, const float* all_dy, const float* all_y, float* all_dx) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const float* const dy = all_dy + row * c;
    const float* const y = all_y + row * c;
    float dot = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) dot += dy[i] * y[i];
    dot = Reduce<kTeam>(dot, SumOf());
    for (int64_t i = team.member(); i < c; i += kTeam) all_dx[row * c + i] = y[i] * (dy[i] - dot);
  }
}

const char* Softmax(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (args.in[0].count == 0) return nullptr;
  const float* const x = args.in[0].as<const float>();
  float* const y = args.out[0].as<float>();
  if (c <= kWarpColumns) {
    return Launch({Stream(args), Blocks(rows, kThreads / kWarp)}, SoftmaxKernel<kWarp>, rows, c, x, y);
  }
  return Launch({Stream(args), Blocks(rows, 1)}, SoftmaxKernel<kThreads>, rows, c, x, y);
}

// in: dy, y.
const char* SoftmaxGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (args.in[0].count == 0) return nullptr;
  const float* const dy = args.in[0].as<const float>();
  const float* const y = args.in[1].as<const float>();
  float* const dx = args.out[0].as<float>();
  if (c <= kWarpColumns) {
    return Launch({Stream(args), Blocks(rows, kThreads / kWarp)}, SoftmaxGradKernel<kWarp>, rows, c, dy, y, dx);
  }
  return Launch({Stream(args), Blocks(rows, 1)}, SoftmaxGradKernel<kThreads>, rows, c, dy, y, dx);
}

}  // namespace

KernelList SoftmaxKernels() {
  return {{"softmax", DType::kFloat32, Softmax}, {"softmax_grad", DType::kFloat32, SoftmaxGrad}};
}

}  // namespace oneflow::cuda
