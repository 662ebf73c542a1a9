// The gradient of reduce_max and reduce_min, which every element that is the extremum y gets an equal share of:
// extremum_count says how many there are, extremum_grad gives them dy / n and all others 0. n is f32 whatever the
// others are.
//
// x is walked in runs along its inner dimension. If that is reduced, all elements of a run have the same y; if it is
// kept, neighbours have neighbouring ones.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/reduce.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

// The y, dy or n of a run's elements i, i + 1, ...; `p` is that of the first.
struct Same {
  template <typename T, typename Lanes>
  OF_INLINE F32s operator()(const T* p, int64_t, Lanes) const {
    return Splat(ToFloat(*p));
  }
};
struct Neighbours {
  template <typename T, typename Lanes>
  OF_INLINE F32s operator()(const T* p, int64_t i, Lanes lanes) const {
    return Load(p + i, lanes);
  }
};

// run(at, n, output, of): the elements [at, at + n) of x, whose y is `output` or begins there; `bytes` are touched for
// each. All runs of an output are one thread's, one after another.
template <typename Run>
void ForEachRun(const TensorArg& x, const std::vector<bool>& is_reduced, int64_t bytes, Run run) {
  Groups groups(x, is_reduced);
  const StridedDim inner = groups.TakeInner();
  const int64_t outputs = Count(groups.kept), terms = Count(groups.reduced);
  const int64_t width = groups.inner_reduced ? inner.extent : std::min(kStrip, inner.extent);
  const int64_t strips = groups.inner_reduced ? 1 : (inner.extent + kStrip - 1) / kStrip;
  ParallelFor(outputs * strips, Grain(bytes * terms * width), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t output = task / strips, column = task % strips * kStrip;
      const int64_t base = Offset(groups.kept, output) + column;
      for (int64_t term = 0; term < terms; ++term) {
        const int64_t at = base + Offset(groups.reduced, term);
        if (groups.inner_reduced) {
          run(at, inner.extent, output, Same());
        } else {
          run(at, std::min(kStrip, inner.extent - column), output * inner.extent + column, Neighbours());
        }
      }
    }
  });
}

// in: x, y; out: n.
template <typename T>
const char* ExtremumCount(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const T* const y = args.in[1].as<const T>();
  float* const n = args.out[0].as<float>();
  std::fill(n, n + args.out[0].count, 0.0f);
  ForEachRun(args.in[0], ReducedAxes(args.in[0], *args.attrs), sizeof(T),
             [=](int64_t at, int64_t count, int64_t output, auto of) {
               F32s hits = Splat(0);
               VecLoop(count, [&](int64_t i, auto lanes) {
                 const F32s hit = Load(x + at + i, lanes) == of(y + output, i, lanes) ? Splat(1) : Splat(0);
                 if constexpr (std::is_same_v<decltype(of), Same>) {
                   hits += Keep(hit, lanes);
                 } else {
                   Store(n + output + i, Load(n + output + i, lanes) + hit, lanes);
                 }
               });
               if constexpr (std::is_same_v<decltype(of), Same>) n[output] += Sum(hits);
             });
  return nullptr;
}

// in: dy, x, y, n; out: dx.
template <typename T>
const char* ExtremumGrad(const KernelArgs& args) {
  const T* const dy = args.in[0].as<const T>();
  const T* const x = args.in[1].as<const T>();
  const T* const y = args.in[2].as<const T>();
  const float* const n = args.in[3].as<const float>();
  T* const dx = args.out[0].as<T>();
  ForEachRun(args.in[1], ReducedAxes(args.in[1], *args.attrs), 2 * sizeof(T),
             [=](int64_t at, int64_t count, int64_t output, auto of) {
               VecLoop(count, [&](int64_t i, auto lanes) {
                 const F32s share = of(dy + output, i, lanes) / of(n + output, i, lanes);
                 const F32s extremum = of(y + output, i, lanes);
                 Store(dx + at + i, Load(x + at + i, lanes) == extremum ? share : Splat(0), lanes);
               });
             });
  return nullptr;
}

}  // namespace

KernelList ExtremumKernels() {
  return {OF_FLOAT_KERNELS("extremum_count", ExtremumCount), OF_FLOAT_KERNELS("extremum_grad", ExtremumGrad)};
}

}  // namespace oneflow::cpu
