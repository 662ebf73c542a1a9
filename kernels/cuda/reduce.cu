// Reductions: reduce_sum, reduce_mean, reduce_max, reduce_min, sum_to (which undoes broadcasting) and square_sum.
//
// A pass cuts the terms of every output into splits, so that few outputs with many terms fill the GPU too; a second
// pass combines the splits in order. Where the inner dimension is reduced a warp takes a split, so that its lanes read
// neighbours; where it is kept a thread does, because then its neighbours read theirs.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {

Groups::Groups(const TensorArg& x, const std::vector<bool>& is_reduced) {
  int64_t stride = 1;
  int last = -1;  // -1: no dimension yet, else whether the previous one was reduced
  for (int i = x.rank; i-- > 0;) {
    const int64_t extent = x.dims[i];
    (is_reduced[i] ? terms : outputs) *= extent;
    if (extent == 1) continue;
    std::vector<LoopDim<1>>& dims = is_reduced[i] ? reduced : kept;
    if (last == static_cast<int>(is_reduced[i])) {
      dims.back().extent *= extent;
    } else {
      dims.push_back({extent, {stride}});
    }
    if (last < 0) inner_reduced = is_reduced[i];
    last = is_reduced[i];
    stride *= extent;
  }
  for (std::vector<LoopDim<1>>* dims : {&kept, &reduced}) std::reverse(dims->begin(), dims->end());
}

namespace {

// As in the cpu twin: what to do with an element, and with two results.
struct Sum {
  using Total = FloatPair;
  static __device__ Total Identity() { return {}; }
  static __device__ void Add(float x, Total* total) { total->Add(x); }
  static __device__ Total Join(Total a, Total b) { return a + b; }
};
struct SquareSum : Sum {
  static __device__ void Add(float x, Total* total) { total->AddSquare(x); }
};
struct Max {
  using Total = float;
  static __device__ Total Identity() { return -INFINITY; }
  static __device__ void Add(float x, Total* total) { *total = Join(*total, x); }
  static __device__ Total Join(Total a, Total b) { return a > b || isnan(a) ? a : b; }
};
struct Min {
  using Total = float;
  static __device__ Total Identity() { return INFINITY; }
  static __device__ void Add(float x, Total* total) { *total = Join(*total, x); }
  static __device__ Total Join(Total a, Total b) { return a < b || isnan(a) ? a : b; }
};

// Splits of the terms: enough for the GPU, none too small to be worth its share of the second pass.
int64_t Splits(const Groups& groups) {
  constexpr int64_t kWarps = 8192;           // about 64 per SM
  constexpr int64_t kThreadsInUse = 131072;  // about 1000 per SM
  const int64_t wanted = (groups.inner_reduced ? kWarps : kThreadsInUse) / std::max<int64_t>(1, groups.outputs);
  const int64_t useful = groups.terms / (groups.inner_reduced ? 1024 : 64);
  return std::max<int64_t>(1, std::min(wanted, useful));
}

// What a pass writes: a split's result, or where there is one split the output itself, of a floating type.
template <typename Total>
struct Target {
  Total* partial;
  void* y;
  DType dtype;
  double scale;

  __device__ void Write(int64_t at, Total total) const {
    if (partial != nullptr) {
      partial[at] = total;
    } else if constexpr (std::is_same_v<Total, FloatPair>) {
      Round(at, static_cast<float>(scale * total.Value()));
    } else {
      Round(at, total);
    }
  }
  __device__ void Round(int64_t at, float value) const {
    if (dtype == DType::kBFloat16) {
      static_cast<BFloat16*>(y)[at] = Narrow<BFloat16>(value);
    } else if (dtype == DType::kFloat16) {
      static_cast<Float16*>(y)[at] = Narrow<Float16>(value);
    } else {
      static_cast<float*>(y)[at] = value;
    }
  }
};

// What a pass reads. A task is a split of an output's terms; those of all outputs' first splits come first.
template <typename Index>
struct Tasks {
  Tasks(const Groups& groups, int64_t splits)
      : count(groups.outputs * splits),
        terms(groups.terms),
        terms_of_split((groups.terms + splits - 1) / splits),
        outputs(groups.outputs),
        kept(groups.kept),
        reduced(groups.reduced) {}

  int64_t count, terms, terms_of_split;
  Divisor<Index> outputs;
  StridedLoop<Index, 1> kept, reduced;
};

// The terms of a task.
template <typename T, typename Index>
struct SplitTerms {
  __device__ SplitTerms(const Tasks<Index>& tasks, int64_t task, const T* x) {
    const auto [split, output] = tasks.outputs.Divide(static_cast<Index>(task));
    base = x + tasks.kept.At(output).of[0];
    begin = split * tasks.terms_of_split;
    end = begin + tasks.terms_of_split < tasks.terms ? begin + tasks.terms_of_split : tasks.terms;
  }
  const T* base;
  int64_t begin, end;
};

template <typename Op>
__device__ typename Op::Total JoinLanes(typename Op::Total total) {
  return Reduce<kWarp>(total, [](typename Op::Total a, typename Op::Total b) { return Op::Join(a, b); });
}

template <typename Op, typename T, typename Index>
__global__ void WarpPerSplit(Tasks<Index> tasks, const T* x, Target<typename Op::Total> target) {
  const Team<kWarp> team;
  for (int64_t task = team.first(); task < tasks.count; task += team.stride()) {
    const SplitTerms<T, Index> terms(tasks, task, x);
    typename Op::Total total = Op::Identity();
    for (int64_t term = terms.begin + team.member(); term < terms.end; term += kWarp) {
      Op::Add(Widen(terms.base[tasks.reduced.At(static_cast<Index>(term)).of[0]]), &total);
    }
    total = JoinLanes<Op>(total);
    if (team.member() == 0) target.Write(task, total);
  }
}

template <typename Op, typename T, typename Index>
__global__ void ThreadPerSplit(Tasks<Index> tasks, const T* x, Target<typename Op::Total> target) {
#pragma unroll 1
  for (int64_t task = FirstIndex(); task < tasks.count; task += IndexStride()) {
    const SplitTerms<T, Index> terms(tasks, task, x);
    typename Op::Total total = Op::Identity();
    for (int64_t term = terms.begin; term < terms.end; ++term) {
      Op::Add(Widen(terms.base[tasks.reduced.At(static_cast<Index>(term)).of[0]]), &total);
    }
    target.Write(task, total);
  }
}

template <typename Op>
__global__ void JoinSplits(int64_t outputs, int64_t splits, const typename Op::Total* partial,
                           Target<typename Op::Total> target) {
  const Team<kWarp> team;
  for (int64_t output = team.first(); output < outputs; output += team.stride()) {
    typename Op::Total total = Op::Identity();
    for (int64_t split = team.member(); split < splits; split += kWarp) {
      total = Op::Join(total, partial[split * outputs + output]);
    }
    total = JoinLanes<Op>(total);
    if (team.member() == 0) target.Write(output, total);
  }
}

constexpr int kTeams = kThreads / kWarp;

template <typename Op, typename T>
const char* ReduceGroups(const KernelArgs& args, const Groups& groups, double scale) {
  using Total = typename Op::Total;
  if (!groups.is_valid()) return "a reduction has more than 8 merged dimensions";
  if (groups.outputs == 0) return nullptr;
  const int64_t splits = Splits(groups), count = groups.outputs * splits;
  const Target<Total> final = {nullptr, args.out[0].data, args.out[0].dtype, scale};
  const Target<Total> first =
      splits > 1 ? Target<Total>{static_cast<Total*>(args.workspace), nullptr, DType::kFloat32, 1} : final;
  const char* const error = WithIndex(std::max(count, groups.terms), [&](auto index) {
    using Index = decltype(index);
    return Launch({Stream(args), groups.inner_reduced ? Blocks(count, kTeams) : Blocks(count)},
                  groups.inner_reduced ? WarpPerSplit<Op, T, Index> : ThreadPerSplit<Op, T, Index>,
                  Tasks<Index>(groups, splits), args.in[0].as<const T>(), first);
  });
  if (error != nullptr || splits == 1) return error;
  return Launch({Stream(args), Blocks(groups.outputs, kTeams)}, JoinSplits<Op>, groups.outputs, splits, first.partial,
                final);
}

Groups ByAxes(const KernelArgs& args) { return Groups(args.in[0], ReducedAxes(args.in[0], *args.attrs)); }
Groups ByShape(const KernelArgs& args) { return Groups(args.in[0], ReducedTo(args.in[0], args.out[0])); }
Groups All(const KernelArgs& args) { return Groups(args.in[0], std::vector<bool>(args.in[0].rank, true)); }

template <Groups (*kGroups)(const KernelArgs&)>
size_t Workspace(const KernelArgs& args) {
  return ReduceWorkspace(kGroups(args));
}

template <typename Op, Groups (*kGroups)(const KernelArgs&)>
const char* Run(const KernelArgs& args) {
  return ReduceGroups<Op, float>(args, kGroups(args), 1);
}

// An extremum is one of its elements, so it is not rounded, whatever they are.
template <typename T>
const char* ReduceMax(const KernelArgs& args) {
  return ReduceGroups<Max, T>(args, ByAxes(args), 1);
}
template <typename T>
const char* ReduceMin(const KernelArgs& args) {
  return ReduceGroups<Min, T>(args, ByAxes(args), 1);
}

// Divides by the logical count, so that the results of shards add up to the mean.
const char* ReduceMean(const KernelArgs& args) {
  const double scale = 1.0 / static_cast<double>(LogicalTerms(args.in[0], *args.attrs));
  return ReduceGroups<Sum, float>(args, ByAxes(args), scale);
}

template <typename T>
const char* SumTo(const KernelArgs& args) {
  return ReduceGroups<Sum, T>(args, ByShape(args), 1);
}

}  // namespace

size_t ReduceWorkspace(const Groups& groups) {
  const int64_t splits = Splits(groups);
  return splits == 1 ? 0 : static_cast<size_t>(splits * groups.outputs) * sizeof(FloatPair);
}

const char* LaunchSum(const KernelArgs& args, const Groups& groups) {
  return ByFloat(args.in[0].dtype, [&]<typename T>() { return ReduceGroups<Sum, T>(args, groups, 1); });
}

KernelList ReduceKernels() {
  constexpr DType kF32 = DType::kFloat32;
  return {{"reduce_sum", kF32, Run<Sum, ByAxes>, Workspace<ByAxes>},
          {"reduce_mean", kF32, ReduceMean, Workspace<ByAxes>},
          OF_FLOAT_KERNELS("reduce_max", ReduceMax, Workspace<ByAxes>),
          OF_FLOAT_KERNELS("reduce_min", ReduceMin, Workspace<ByAxes>),
          OF_FLOAT_KERNELS("sum_to", SumTo, Workspace<ByShape>),
          {"square_sum", kF32, Run<SquareSum, All>, Workspace<All>}};
}

}  // namespace oneflow::cuda
