// softmax over the last dimension and its gradient dx = y (dy - sum(dy y)), in float whatever the elements are. A team
// per row.
#include <cmath>

#include "kernels/cuda/half.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

template <int kTeam, typename T>
__global__ void SoftmaxKernel(int64_t rows, int64_t c, const T* all_x, T* all_y) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const T* const x = all_x + row * c;
    T* const y = all_y + row * c;
    float top = -INFINITY, sum = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) top = MaxOf()(top, Widen(x[i]));
    top = Reduce<kTeam>(top, MaxOf());
    for (int64_t i = team.member(); i < c; i += kTeam) {
      const float e = expf(Widen(x[i]) - top);
      if constexpr (!kIsHalf<T>) y[i] = e;
      sum += e;
    }
    const float inverse = 1.0f / Reduce<kTeam>(sum, SumOf());
    for (int64_t i = team.member(); i < c; i += kTeam) {
      if constexpr (kIsHalf<T>) {  // made again, so that it is rounded once
        y[i] = Narrow<T>(expf(Widen(x[i]) - top) * inverse);
      } else {
        y[i] *= inverse;
      }
    }
  }
}

template <int kTeam, typename T>
__global__ void SoftmaxGradKernel(int64_t rows, int64_t c, const T* all_dy, const T* all_y, T* all_dx) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const T* const dy = all_dy + row * c;
    const T* const y = all_y + row * c;
    float dot = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) dot += Widen(dy[i]) * Widen(y[i]);
    dot = Reduce<kTeam>(dot, SumOf());
    for (int64_t i = team.member(); i < c; i += kTeam) {
      all_dx[row * c + i] = Narrow<T>(Widen(y[i]) * (Widen(dy[i]) - dot));
    }
  }
}

template <typename T>
const char* Softmax(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (c == 0) return nullptr;
  return LaunchRows(args, rows, c, SoftmaxKernel<kWarp, T>, SoftmaxKernel<kThreads, T>, args.in[0].as<const T>(),
                    args.out[0].as<T>());
}

// in: dy, y.
template <typename T>
const char* SoftmaxGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (c == 0) return nullptr;
  return LaunchRows(args, rows, c, SoftmaxGradKernel<kWarp, T>, SoftmaxGradKernel<kThreads, T>,
                    args.in[0].as<const T>(), args.in[1].as<const T>(), args.out[0].as<T>());
}

}  // namespace

KernelList SoftmaxKernels() {
  return {OF_FLOAT_KERNELS("softmax", Softmax), OF_FLOAT_KERNELS("softmax_grad", SoftmaxGrad)};
}

}  // namespace oneflow::cuda
