// The parts of a softmax and of its cross entropy, between which the columns may be split: every shard makes its
// addends of the sums of a row, and knows by the `start` of x which columns it holds. x, its maximum m, y and their
// gradients may be of 16 bits; what is summed is float. A label that is no class gives a loss of NaN: a launched kernel
// cannot return an error.
#include <cmath>
#include <cstdint>

#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/team.cuh"
#include "kernels/softmax_operands.h"

namespace oneflow::cuda {
namespace {

struct MinOf {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};

// The sum of exp(x - m) over c columns, for every member.
template <int kTeam, typename T>
__device__ float SumOfExp(const Team<kTeam>& team, const T* x, int64_t c, float m) {
  float sum = 0;
  for (int64_t i = team.member(); i < c; i += kTeam) sum += expf(Widen(x[i]) - m);
  return Reduce<kTeam>(sum, SumOf());
}

template <int kTeam, typename T>
__global__ void SumsKernel(int64_t rows, int64_t c, int64_t first, int64_t classes, const T* x, const int32_t* labels,
                           const T* all_m, float* s, float* z) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const float m = Widen(all_m[row]), sum = SumOfExp(team, x + row * c, c, m);
    if (team.member() != 0) continue;
    const int64_t label = labels[row], column = label - first;
    const float outside = label >= 0 && label < classes ? 0.0f : NAN;
    s[row] = sum;
    z[row] = column >= 0 && column < c ? Widen(x[row * c + column]) - m : outside;
  }
}

template <int kTeam, typename T>
__global__ void ExpSumKernel(int64_t rows, int64_t c, const T* x, const T* m, float* s) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const float sum = SumOfExp(team, x + row * c, c, Widen(m[row]));
    if (team.member() == 0) s[row] = sum;
  }
}

template <int kTeam, typename T>
__global__ void DotKernel(int64_t rows, int64_t c, const T* a, const T* b, float* d) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    float dot = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) dot += Widen(a[row * c + i]) * Widen(b[row * c + i]);
    dot = Reduce<kTeam>(dot, SumOf());
    if (team.member() == 0) d[row] = dot;
  }
}

template <int kTeam, typename T>
__global__ void FirstKernel(int64_t rows, int64_t c, int64_t first, const T* x, const T* m, int32_t* index) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    int64_t found = INT32_MAX;
    for (int64_t i = team.member(); i < c; i += kTeam) {
      if (Widen(x[row * c + i]) != Widen(m[row])) continue;
      found = first + i;
      break;
    }
    found = Reduce<kTeam>(found, MinOf());
    if (team.member() == 0) index[row] = static_cast<int32_t>(found);
  }
}

// in: x[T...,c], labels, m; out: s, z. A shard without a row's label has no part in its z.
template <typename T>
const char* SoftmaxSums(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  return LaunchRows(args, args.in[1].count, Columns(x), SumsKernel<kWarp, T>, SumsKernel<kThreads, T>,
                    x.start[x.rank - 1], x.logical_dims[x.rank - 1], x.as<const T>(), args.in[1].as<const int32_t>(),
                    args.in[2].as<const T>(), args.out[0].as<float>(), args.out[1].as<float>());
}

// in: m, s, z; out: loss, lse.
template <typename T>
const char* SoftmaxLoss(const KernelArgs& args) {
  const SoftmaxLossOperands<T> x(args);
  return ForEach(Stream(args), x.rows, [=] __device__(int64_t row) {
    const float log_sum = logf(x.s[row]);
    x.loss[row] = log_sum - x.z[row];  // before adding m: no cancellation
    x.lse[row] = Widen(x.m[row]) + log_sum;
  });
}

// in: x[T...,c], m.
template <typename T>
const char* ExpSum(const KernelArgs& args) {
  return LaunchRows(args, args.in[1].count, Columns(args.in[0]), ExpSumKernel<kWarp, T>, ExpSumKernel<kThreads, T>,
                    args.in[0].as<const T>(), args.in[1].as<const T>(), args.out[0].as<float>());
}

// in: x[T...,c], m, s.
template <typename T>
const char* SoftmaxApply(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const T* const m = args.in[1].as<const T>();
  const float* const s = args.in[2].as<const float>();
  T* const y = args.out[0].as<T>();
  return ForEach(Stream(args), {Rows(args.in[0]), Columns(args.in[0])},
                 [=] __device__(int64_t i, int64_t row, int64_t) {
                   y[i] = Narrow<T>(expf(Widen(x[i]) - Widen(m[row])) / s[row]);
                 });
}

// in: a[T...,c], b[T...,c].
template <typename T>
const char* RowDot(const KernelArgs& args) {
  return LaunchRows(args, args.out[0].count, Columns(args.in[0]), DotKernel<kWarp, T>, DotKernel<kThreads, T>,
                    args.in[0].as<const T>(), args.in[1].as<const T>(), args.out[0].as<float>());
}

// in: dy[T...,c], y[T...,c], d.
template <typename T>
const char* SoftmaxGradApply(const KernelArgs& args) {
  const T* const dy = args.in[0].as<const T>();
  const T* const y = args.in[1].as<const T>();
  const float* const d = args.in[2].as<const float>();
  T* const dx = args.out[0].as<T>();
  return ForEach(
      Stream(args), {Rows(args.in[0]), Columns(args.in[0])},
      [=] __device__(int64_t i, int64_t row, int64_t) { dx[i] = Narrow<T>(Widen(y[i]) * (Widen(dy[i]) - d[row])); });
}

// in: x[T...,c], m. Of a shard without such an element the largest i32, so that the least of all shards is the index.
template <typename T>
const char* FirstIndex(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  return LaunchRows(args, args.in[1].count, Columns(x), FirstKernel<kWarp, T>, FirstKernel<kThreads, T>,
                    x.start[x.rank - 1], x.as<const T>(), args.in[1].as<const T>(), args.out[0].as<int32_t>());
}

// in: a, b.
const char* SameIndex(const KernelArgs& args) {
  const SameIndexOperands x(args);
  return ForEach(Stream(args), x.count, [=] __device__(int64_t i) { x.y[i] = x.a[i] == x.b[i] ? 1.0f : 0.0f; });
}

}  // namespace

KernelList SoftmaxPartsKernels() { return {OF_SOFTMAX_PARTS_KERNELS}; }

}  // namespace oneflow::cuda
