// The gradient of reduce_max and reduce_min, which every element that is the extremum y gets an equal share of:
// extremum_count says how many there are, extremum_grad gives them dy / n and all others 0. n is f32 whatever the
// others are.
//
// Elements of x are numbered by output and by term, the faster of the two being the one that is x's inner dimension, so
// that neighbouring threads read neighbours.
#include <algorithm>

#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

Groups ByAxes(const TensorArg& x, const AttrMap& attrs) { return Groups(x, ReducedAxes(x, attrs)); }

constexpr char kTooManyReduced[] = "a reduction has more than 8 merged dimensions";

// Where the elements of x lie: the first of each output, and each term behind it.
template <typename Index>
struct Loops {
  explicit Loops(const Groups& groups)
      : outputs(groups.outputs), terms(groups.terms), kept(groups.kept), reduced(groups.reduced) {}
  __device__ int64_t OfOutput(int64_t output) const { return kept.At(static_cast<Index>(output)).of[0]; }
  __device__ int64_t OfTerm(int64_t term) const { return reduced.At(static_cast<Index>(term)).of[0]; }

  int64_t outputs, terms;
  StridedLoop<Index, 1> kept, reduced;
};

template <int kTeam, typename T, typename Index>
__global__ void TeamPerOutput(Loops<Index> loops, const T* x, const T* y, float* n) {
  const Team<kTeam> team;
  for (int64_t output = team.first(); output < loops.outputs; output += team.stride()) {
    const T* const base = x + loops.OfOutput(output);
    const float extremum = Widen(y[output]);
    int64_t count = 0;
    for (int64_t term = team.member(); term < loops.terms; term += kTeam) {
      count += Widen(base[loops.OfTerm(term)]) == extremum;
    }
    count = Reduce<kTeam>(count, SumOf());
    if (team.member() == 0) n[output] = static_cast<float>(count);
  }
}

template <typename T, typename Index>
__global__ void ThreadPerOutput(Loops<Index> loops, const T* x, const T* y, float* n) {
#pragma unroll 1
  for (int64_t output = FirstIndex(); output < loops.outputs; output += IndexStride()) {
    const T* const base = x + loops.OfOutput(output);
    const float extremum = Widen(y[output]);
    int64_t count = 0;
    for (int64_t term = 0; term < loops.terms; ++term) count += Widen(base[loops.OfTerm(term)]) == extremum;
    n[output] = static_cast<float>(count);
  }
}

// in: x, y; out: n.
template <typename T, typename Index>
const char* CountOf(const KernelArgs& args, const Groups& groups) {
  const auto launch = [&](auto kernel, int64_t outputs_per_block) {
    return Launch({Stream(args), Blocks(groups.outputs, outputs_per_block)}, kernel, Loops<Index>(groups),
                  args.in[0].as<const T>(), args.in[1].as<const T>(), args.out[0].as<float>());
  };
  // Neighbouring threads read neighbours, unless there are so few outputs that this would leave most of the GPU idle.
  if (!groups.inner_reduced && groups.outputs >= kMaxBlocks) return launch(ThreadPerOutput<T, Index>, kThreads);
  return groups.terms <= kWarpColumns ? launch(TeamPerOutput<kWarp, T, Index>, kThreads / kWarp)
                                      : launch(TeamPerOutput<kThreads, T, Index>, 1);
}

template <typename T>
const char* ExtremumCount(const KernelArgs& args) {
  const Groups groups = ByAxes(args.in[0], *args.attrs);
  if (!groups.is_valid()) return kTooManyReduced;
  if (groups.outputs == 0) return nullptr;
  return WithIndex(std::max(groups.outputs, groups.terms),
                   [&](auto index) { return CountOf<T, decltype(index)>(args, groups); });
}

// in: dy, x, y, n; out: dx.
template <typename T, typename Index>
const char* GradOf(const KernelArgs& args, const Groups& groups) {
  const Loops<Index> loops(groups);
  const bool inner_reduced = groups.inner_reduced;
  const T* const dy = args.in[0].as<const T>();
  const T* const x = args.in[1].as<const T>();
  const T* const y = args.in[2].as<const T>();
  const float* const n = args.in[3].as<const float>();
  T* const dx = args.out[0].as<T>();
  const Divisor<Index> faster(inner_reduced ? loops.terms : loops.outputs);
  return ForEach(Stream(args), args.in[1].count, [=] __device__(int64_t i) {
    const auto [slow, fast] = faster.Divide(static_cast<Index>(i));
    const int64_t output = inner_reduced ? slow : fast, term = inner_reduced ? fast : slow;
    const int64_t at = loops.OfOutput(output) + loops.OfTerm(term);
    dx[at] = Narrow<T>(Widen(x[at]) == Widen(y[output]) ? Widen(dy[output]) / n[output] : 0.0f);
  });
}

template <typename T>
const char* ExtremumGrad(const KernelArgs& args) {
  const Groups groups = ByAxes(args.in[1], *args.attrs);
  if (!groups.is_valid()) return kTooManyReduced;
  return WithIndex(args.in[1].count, [&](auto index) { return GradOf<T, decltype(index)>(args, groups); });
}

}  // namespace

KernelList ExtremumKernels() {
  return {OF_FLOAT_KERNELS("extremum_count", ExtremumCount), OF_FLOAT_KERNELS("extremum_grad", ExtremumGrad)};
}

}  // namespace oneflow::cuda
