// Reductions over any set of dimensions: reduce_sum, reduce_mean, reduce_max, reduce_min, sum_to (which undoes
// broadcasting) and square_sum.
//
// Neighbouring dimensions that are both kept or both reduced are merged. Then either the inner dimension is reduced,
// and an output element is a sum of contiguous runs, or it is kept, and a strip of output elements is a sum of strips.
// Sums are carried in double between runs, in an order that does not depend on the number of threads.
#include "kernels/cpu/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

struct SumOp {
  static constexpr double kIdentity = 0;
  template <typename T>
  static T Combine(T a, T b) {
    return a + b;
  }
  static float Lanes(F32s v) { return Sum(v); }
};
struct MaxOp {
  static constexpr double kIdentity = -std::numeric_limits<double>::infinity();
  template <typename T>
  static T Combine(T a, T b) {
    return (a > b) | (a != a) ? a : b;  // a NaN wins, as in P(max)
  }
  static float Lanes(F32s v) {
    return Fold(v, [](F32s a, F32s b) OF_INLINED { return Combine(a, b); });
  }
};

struct MinOp {
  static constexpr double kIdentity = std::numeric_limits<double>::infinity();
  template <typename T>
  static T Combine(T a, T b) {
    return (a < b) | (a != a) ? a : b;
  }
  static float Lanes(F32s v) {
    return Fold(v, [](F32s a, F32s b) OF_INLINED { return Combine(a, b); });
  }
};

// Elements of a run that are combined in float before they go to the double: 64 per lane, however many lanes a register
// has, as those behind a large term in its lane are what a sum may lose.
constexpr int64_t kRun = 64 * kLanes;

template <typename Op, typename T>
double ReduceRun(const T* x, int64_t n) {
  double total = Op::kIdentity;
  for (int64_t begin = 0; begin < n; begin += kRun) {
    F32s lanes_total = Splat(static_cast<float>(Op::kIdentity));
    VecLoop(std::min(kRun, n - begin), [&](int64_t i, auto lanes) {
      lanes_total = Op::Combine(lanes_total, Load(x + begin + i, lanes, static_cast<float>(Op::kIdentity)));
    });
    total = Op::Combine(total, static_cast<double>(Op::Lanes(lanes_total)));
  }
  return total;
}

// y = scale * reduction of x.
template <typename Op, typename T, typename To>
void Reduce(const TensorArg& x, const std::vector<bool>& is_reduced, To* y, double scale) {
  Groups groups(x, is_reduced);
  const T* const from = x.as<const T>();
  const StridedDim inner = groups.TakeInner();
  const int64_t outputs = Count(groups.kept), terms = Count(groups.reduced);
  if (groups.inner_reduced) {
    ParallelFor(outputs, Grain(sizeof(T) * terms * inner.extent), [&](int64_t begin, int64_t end) {
      for (int64_t output = begin; output < end; ++output) {
        const T* const base = from + Offset(groups.kept, output);
        double total = Op::kIdentity;
        for (int64_t term = 0; term < terms; ++term) {
          total = Op::Combine(total, ReduceRun<Op>(base + Offset(groups.reduced, term), inner.extent));
        }
        FromFloat(static_cast<float>(scale * total), y + output);
      }
    });
    return;
  }
  const int64_t strips = (inner.extent + kStrip - 1) / kStrip;
  ParallelFor(outputs * strips, Grain(sizeof(T) * terms * std::min(kStrip, inner.extent)),
              [&](int64_t begin, int64_t end) {
                for (int64_t task = begin; task < end; ++task) {
                  const int64_t output = task / strips, column = task % strips * kStrip;
                  const int64_t n = std::min(kStrip, inner.extent - column);
                  const T* const base = from + Offset(groups.kept, output) + column;
                  double total[kStrip];
                  std::fill(total, total + n, Op::kIdentity);
                  for (int64_t term = 0; term < terms; ++term) {
                    const T* const row = base + Offset(groups.reduced, term);
#pragma omp simd
                    for (int64_t i = 0; i < n; ++i) {
                      total[i] = Op::Combine(total[i], static_cast<double>(ToFloat(row[i])));
                    }
                  }
                  for (int64_t i = 0; i < n; ++i) {
                    FromFloat(static_cast<float>(scale * total[i]), y + output * inner.extent + column + i);
                  }
                }
              });
}

const char* ReduceSum(const KernelArgs& args) {
  Reduce<SumOp, float>(args.in[0], ReducedAxes(args.in[0], *args.attrs), args.out[0].as<float>(), 1);
  return nullptr;
}

// As of [n,c/16,h,w,16] over h and w.
void ReducePixels(const TensorArg& x, float* y, double scale) {
  const std::vector<int64_t> dims = DimsInMemory(x);
  TensorArg in_memory = x;
  in_memory.rank = static_cast<int>(dims.size());
  in_memory.dims = dims.data();
  Reduce<SumOp, float>(in_memory, {false, false, true, true, false}, y, scale);
}

// Divides by the logical count, so that the results of shards add up to the mean.
const char* ReduceMean(const KernelArgs& args) {
  const std::vector<bool> is_reduced = ReducedAxes(args.in[0], *args.attrs);
  const double scale = 1.0 / static_cast<double>(LogicalTerms(args.in[0], *args.attrs));
  if (args.in[0].in_blocks()) {
    ReducePixels(args.in[0], args.out[0].as<float>(), scale);
  } else {
    Reduce<SumOp, float>(args.in[0], is_reduced, args.out[0].as<float>(), scale);
  }
  return nullptr;
}

// An extremum is one of its elements, so it is not rounded, whatever they are.
template <typename T>
const char* ReduceMax(const KernelArgs& args) {
  Reduce<MaxOp, T>(args.in[0], ReducedAxes(args.in[0], *args.attrs), args.out[0].as<T>(), 1);
  return nullptr;
}

template <typename T>
const char* ReduceMin(const KernelArgs& args) {
  Reduce<MinOp, T>(args.in[0], ReducedAxes(args.in[0], *args.attrs), args.out[0].as<T>(), 1);
  return nullptr;
}

template <typename T>
const char* SumTo(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &y = args.out[0];
  return ByFloat(y.dtype, [&]<typename To>() { Reduce<SumOp, T>(x, ReducedTo(x, y), y.as<To>(), 1); });
}

// Elements per partial sum of square_sum: a task of about 4 us.
constexpr int64_t kSquareBlock = 16384;

size_t SquareSumWorkspace(const KernelArgs& args) {
  return static_cast<size_t>((args.in[0].count + kSquareBlock - 1) / kSquareBlock) * sizeof(double);
}

const char* SquareSum(const KernelArgs& args) {
  const int64_t n = args.in[0].count, blocks = (n + kSquareBlock - 1) / kSquareBlock;
  double* const partial = static_cast<double*>(args.workspace);
  ParallelFor(blocks, 2, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const float* const x = args.in[0].as<const float>() + block * kSquareBlock;
      const int64_t count = std::min(kSquareBlock, n - block * kSquareBlock);
      partial[block] = 0;
      for (int64_t run = 0; run < count; run += kRun) {
        F32s sum = Splat(0);
        VecLoop(std::min(kRun, count - run), [&](int64_t i, auto lanes) {
          const F32s v = Load(x + run + i, lanes);
          sum += v * v;
        });
        partial[block] += Sum(sum);
      }
    }
  });
  double total = 0;
  for (int64_t block = 0; block < blocks; ++block) total += partial[block];
  args.out[0].as<float>()[0] = static_cast<float>(total);
  return nullptr;
}

}  // namespace

KernelList ReduceKernels() {
  constexpr DType kF32 = DType::kFloat32;
  return {{"reduce_sum", kF32, ReduceSum},           {"reduce_mean", kF32, ReduceMean},
          OF_FLOAT_KERNELS("reduce_max", ReduceMax), OF_FLOAT_KERNELS("reduce_min", ReduceMin),
          OF_FLOAT_KERNELS("sum_to", SumTo),         {"square_sum", kF32, SquareSum, SquareSumWorkspace}};
}

}  // namespace oneflow::cpu
