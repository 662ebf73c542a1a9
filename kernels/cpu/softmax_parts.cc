// The parts of a softmax and of its cross entropy, between which the columns may be split: every shard makes its
// addends of the sums of a row, and knows by the `start` of x which columns it holds. With all columns in one shard the
// parts compute what softmax.cc and cross_entropy.cc do, in the same order. x, its maximum m, y and their gradients may
// be of 16 bits; what is summed is float.
#include <cmath>
#include <limits>

#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

// The sum of exp(x - m) over n columns.
template <typename T>
OF_INLINE float SumOfExp(const T* x, int64_t n, float m) {
  F32s sum = Splat(0);
  VecLoop(n, [&](int64_t i, auto lanes) { sum += Keep(Exp(Load(x + i, lanes) - m), lanes); });
  return Sum(sum);
}

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
  ParallelFor(rows, Grain(sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const values = x.as<const T>() + row * c;
      const float m = ToFloat(args.in[2].as<const T>()[row]);
      const int64_t label = labels[row] - first;
      args.out[0].as<float>()[row] = SumOfExp(values, c, m);
      args.out[1].as<float>()[row] = label >= 0 && label < c ? ToFloat(values[label]) - m : 0.0f;
    }
  });
  return nullptr;
}

// in: m, s, z; out: loss, lse.
template <typename T>
const char* SoftmaxLoss(const KernelArgs& args) {
  const T* const m = args.in[0].as<const T>();
  const float* const s = args.in[1].as<const float>();
  const float* const z = args.in[2].as<const float>();
  float* const loss = args.out[0].as<float>();
  float* const lse = args.out[1].as<float>();
  ParallelFor(args.in[0].count, Grain(5 * sizeof(float)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float log_sum = std::log(s[i]);
      loss[i] = log_sum - z[i];  // before adding m: no cancellation
      lse[i] = ToFloat(m[i]) + log_sum;
    }
  });
  return nullptr;
}

// in: x[T...,c], m.
template <typename T>
const char* ExpSum(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ParallelFor(args.in[1].count, Grain(sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      args.out[0].as<float>()[row] =
          SumOfExp(args.in[0].as<const T>() + row * c, c, ToFloat(args.in[1].as<const T>()[row]));
    }
  });
  return nullptr;
}

// in: x[T...,c], m, s.
template <typename T>
const char* SoftmaxApply(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ParallelFor(Rows(args.in[0]), Grain(2 * sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const x = args.in[0].as<const T>() + row * c;
      T* const y = args.out[0].as<T>() + row * c;
      const float m = ToFloat(args.in[1].as<const T>()[row]);
      const F32s inverse = Splat(1.0f / args.in[2].as<const float>()[row]);
      VecLoop(c, [&](int64_t i, auto lanes) { Store(y + i, Exp(Load(x + i, lanes) - m) * inverse, lanes); });
    }
  });
  return nullptr;
}

// in: a[T...,c], b[T...,c].
template <typename T>
const char* RowDot(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ParallelFor(args.out[0].count, Grain(2 * sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const a = args.in[0].as<const T>() + row * c;
      const T* const b = args.in[1].as<const T>() + row * c;
      F32s dot = Splat(0);
      VecLoop(c, [&](int64_t i, auto lanes) { dot += Load(a + i, lanes) * Load(b + i, lanes); });
      args.out[0].as<float>()[row] = Sum(dot);
    }
  });
  return nullptr;
}

// in: dy[T...,c], y[T...,c], d.
template <typename T>
const char* SoftmaxGradApply(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ParallelFor(Rows(args.in[0]), Grain(3 * sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const dy = args.in[0].as<const T>() + row * c;
      const T* const y = args.in[1].as<const T>() + row * c;
      T* const dx = args.out[0].as<T>() + row * c;
      const F32s d = Splat(args.in[2].as<const float>()[row]);
      VecLoop(c, [&](int64_t i, auto lanes) { Store(dx + i, Load(y + i, lanes) * (Load(dy + i, lanes) - d), lanes); });
    }
  });
  return nullptr;
}

// in: x[T...,c], m. Of a shard without such an element the largest i32, so that the least of all shards is the index.
template <typename T>
const char* FirstIndex(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const int64_t c = Columns(x), first = x.start[x.rank - 1];
  ParallelFor(args.in[1].count, Grain(sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const values = x.as<const T>() + row * c;
      const float m = ToFloat(args.in[1].as<const T>()[row]);
      int64_t i = 0;
      while (i < c && ToFloat(values[i]) != m) ++i;
      args.out[0].as<int32_t>()[row] = i < c ? static_cast<int32_t>(first + i) : std::numeric_limits<int32_t>::max();
    }
  });
  return nullptr;
}

// in: a, b.
const char* Equal(const KernelArgs& args) {
  const int32_t* const a = args.in[0].as<const int32_t>();
  const int32_t* const b = args.in[1].as<const int32_t>();
  float* const y = args.out[0].as<float>();
  ParallelFor(args.in[0].count, Grain(3 * sizeof(float)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = a[i] == b[i] ? 1.0f : 0.0f;
  });
  return nullptr;
}

}  // namespace

KernelList SoftmaxPartsKernels() {
  return {OF_FLOAT_KERNELS("softmax_sums", SoftmaxSums), OF_FLOAT_KERNELS("softmax_loss", SoftmaxLoss),
          OF_FLOAT_KERNELS("exp_sum", ExpSum),           OF_FLOAT_KERNELS("softmax_apply", SoftmaxApply),
          OF_FLOAT_KERNELS("row_dot", RowDot),           OF_FLOAT_KERNELS("softmax_grad_apply", SoftmaxGradApply),
          OF_FLOAT_KERNELS("first_index", FirstIndex),   {"equal", DType::kInt32, Equal}};
}

}  // namespace oneflow::cpu
