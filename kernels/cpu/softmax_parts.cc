// The parts of a softmax and of its cross entropy, between which the columns may be split: every shard makes its
// addends of the sums of a row, and knows by the `start` of x which columns it holds. With all columns in one shard the
// parts compute what softmax.cc and cross_entropy.cc do, in the same order. x, its maximum m, y and their gradients may
// be of 16 bits; what is summed is float.
#include <cmath>
#include <limits>

#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/vec.h"
#include "kernels/softmax_operands.h"

namespace oneflow::cpu {
namespace {

// in: x[T...,c], labels, m; out: s, z. A shard without a row's label has no part in its z.
template <typename T>
const char* SoftmaxSums(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const int64_t c = Columns(x), rows = args.in[1].count, first = x.start[x.rank - 1];
  const int64_t classes = x.logical_dims[x.rank - 1];
  const int32_t* const labels = args.in[1].as<const int32_t>();
  for (int64_t row = 0; row < rows; ++row) {
    if (labels[row] < 0 || labels[row] >= classes) return "softmax sums: a label is no class";
  }
  ForRows(rows, sizeof(T) * c, [&](int64_t row) {
    const T* const values = x.as<const T>() + row * c;
    const float m = ToFloat(args.in[2].as<const T>()[row]);
    const int64_t label = labels[row] - first;
    args.out[0].as<float>()[row] = SumOfExp(values, c, m);
    args.out[1].as<float>()[row] = label >= 0 && label < c ? ToFloat(values[label]) - m : 0.0f;
  });
  return nullptr;
}

// in: m, s, z; out: loss, lse.
template <typename T>
const char* SoftmaxLoss(const KernelArgs& args) {
  const SoftmaxLossOperands<T> x(args);
  ForRows(x.rows, 5 * sizeof(float), [&](int64_t row) {
    const float log_sum = std::log(x.s[row]);
    x.loss[row] = log_sum - x.z[row];  // before adding m: no cancellation
    x.lse[row] = ToFloat(x.m[row]) + log_sum;
  });
  return nullptr;
}

// in: x[T...,c], m.
template <typename T>
const char* ExpSum(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ForRows(args.in[1].count, sizeof(T) * c, [&](int64_t row) {
    const T* const x = args.in[0].as<const T>() + row * c;
    args.out[0].as<float>()[row] = SumOfExp(x, c, ToFloat(args.in[1].as<const T>()[row]));
  });
  return nullptr;
}

// in: x[T...,c], m, s.
template <typename T>
const char* SoftmaxApply(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ForRows(Rows(args.in[0]), 2 * sizeof(T) * c, [&](int64_t row) {
    const T* const x = args.in[0].as<const T>() + row * c;
    T* const y = args.out[0].as<T>() + row * c;
    const float m = ToFloat(args.in[1].as<const T>()[row]);
    const F32s inverse = Splat(1.0f / args.in[2].as<const float>()[row]);
    VecLoop(c, [&](int64_t i, auto lanes) { Store(y + i, Exp(Load(x + i, lanes) - m) * inverse, lanes); });
  });
  return nullptr;
}

// in: a[T...,c], b[T...,c].
template <typename T>
const char* RowDot(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ForRows(args.out[0].count, 2 * sizeof(T) * c, [&](int64_t row) {
    args.out[0].as<float>()[row] = DotOf(args.in[0].as<const T>() + row * c, args.in[1].as<const T>() + row * c, c);
  });
  return nullptr;
}

// in: dy[T...,c], y[T...,c], d.
template <typename T>
const char* SoftmaxGradApply(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ForRows(Rows(args.in[0]), 3 * sizeof(T) * c, [&](int64_t row) {
    SoftmaxGradRow(args.in[0].as<const T>() + row * c, args.in[1].as<const T>() + row * c, c,
                   args.in[2].as<const float>()[row], args.out[0].as<T>() + row * c);
  });
  return nullptr;
}

// in: x[T...,c], m. Of a shard without such an element the largest i32, so that the least of all shards is the index.
template <typename T>
const char* FirstIndex(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const int64_t c = Columns(x), first = x.start[x.rank - 1];
  ForRows(args.in[1].count, sizeof(T) * c, [&](int64_t row) {
    const T* const values = x.as<const T>() + row * c;
    const float m = ToFloat(args.in[1].as<const T>()[row]);
    int64_t i = 0;
    while (i < c && ToFloat(values[i]) != m) ++i;
    args.out[0].as<int32_t>()[row] = i < c ? static_cast<int32_t>(first + i) : std::numeric_limits<int32_t>::max();
  });
  return nullptr;
}

// in: a, b.
const char* SameIndex(const KernelArgs& args) {
  const SameIndexOperands x(args);
  ForRows(x.count, 3 * sizeof(float), [&](int64_t i) { x.y[i] = x.a[i] == x.b[i] ? 1.0f : 0.0f; });
  return nullptr;
}

}  // namespace

KernelList SoftmaxPartsKernels() { return {OF_SOFTMAX_PARTS_KERNELS}; }

}  // namespace oneflow::cpu
