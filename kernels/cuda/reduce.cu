// Reductions: reduce_sum, reduce_mean, reduce_max, reduce_min, sum_to (which undoes broadcasting) and square_sum.
//
// A pass cuts the terms of every output into splits, so that few outputs with many terms fill the GPU too; a second
// pass combines the splits in order. Where the inner dimension is reduced a warp takes a split, so that its lanes read
// neighbours; where it is kept a thread does, because then its neighbours read theirs.
#include <algorithm>
#include <limits>

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
    StridedDims& dims = is_reduced[i] ? reduced : kept;
    if (last == static_cast<int>(is_reduced[i])) {
      dims.extent[dims.rank - 1] *= extent;
    } else if (dims.rank == kMaxRank) {
      is_valid = false;
    } else {
      dims.extent[dims.rank] = extent;
      dims.stride[dims.rank++] = stride;
    }
    if (last < 0) inner_reduced = is_reduced[i];
    last = is_reduced[i];
    stride *= extent;
  }
  for (StridedDims* dims : {&kept, &reduced}) {
    std::reverse(dims->extent, dims->extent + dims->rank);
    std::reverse(dims->stride, dims->stride + dims->rank);
  }
}

namespace {

// As in the cpu twin: what to do with an element, and with two results.
struct Sum {
  static constexpr double kIdentity = 0;
  static __device__ double Term(float x) { return x; }
  static __device__ double Join(double a, double b) { return a + b; }
};
struct Max {
  static constexpr double kIdentity = -std::numeric_limits<double>::infinity();
  static __device__ double Term(float x) { return x; }
  static __device__ double Join(double a, double b) { return a > b || isnan(a) ? a : b; }
};
struct Min {
  static constexpr double kIdentity = std::numeric_limits<double>::infinity();
  static __device__ double Term(float x) { return x; }
  static __device__ double Join(double a, double b) { return a < b || isnan(a) ? a : b; }
};
struct SquareSum {
  static constexpr double kIdentity = 0;
  static __device__ double Term(float x) { return static_cast<double>(x) * x; }
  static __device__ double Join(double a, double b) { return a + b; }
};

// Splits of the terms: enough for the GPU, none too small to be worth its share of the second pass.
int64_t Splits(const Groups& groups) {
  constexpr int64_t kWarps = 8192;           // about 64 per SM
  constexpr int64_t kThreadsInUse = 131072;  // about 1000 per SM
  const int64_t wanted = (groups.inner_reduced ? kWarps : kThreadsInUse) / std::max<int64_t>(1, groups.outputs);
  const int64_t useful = groups.terms / (groups.inner_reduced ? 1024 : 64);
  return std::max<int64_t>(1, std::min(wanted, useful));
}

// What a pass writes: a split's result, or where there is one split the output itself.
struct Target {
  double* partial;
  float* y;
  double scale;

  __device__ void Write(int64_t at, double total) const {
    if (partial != nullptr) {
      partial[at] = total;
    } else {
      y[at] = static_cast<float>(scale * total);
    }
  }
};

struct Cut {
  __device__ Cut(int64_t terms, int64_t splits, int64_t split)
      : begin(terms * split / splits), end(terms * (split + 1) / splits) {}
  int64_t begin, end;
};

template <typename Op>
__device__ double JoinLanes(double total) {
  return Reduce<kWarp>(total, [](double a, double b) { return Op::Join(a, b); });
}

template <typename Op>
__global__ void WarpPerSplit(StridedDims kept, StridedDims reduced, int64_t outputs, int64_t terms, int64_t splits,
                             const float* x, Target target) {
  const Team<kWarp> team;
  for (int64_t task = team.first(); task < outputs * splits; task += team.stride()) {
    const float* const base = x + Offset(kept, task % outputs);
    const Cut cut(terms, splits, task / outputs);
    double total = Op::kIdentity;
    for (int64_t term = cut.begin + team.member(); term < cut.end; term += kWarp) {
      total = Op::Join(total, Op::Term(base[Offset(reduced, term)]));
    }
    total = JoinLanes<Op>(total);
    if (team.member() == 0) target.Write(task, total);
  }
}

template <typename Op>
__global__ void ThreadPerSplit(StridedDims kept, StridedDims reduced, int64_t outputs, int64_t terms, int64_t splits,
                               const float* x, Target target) {
  for (int64_t task = FirstIndex(); task < outputs * splits; task += IndexStride()) {
    const float* const base = x + Offset(kept, task % outputs);
    const Cut cut(terms, splits, task / outputs);
    double total = Op::kIdentity;
    for (int64_t term = cut.begin; term < cut.end; ++term) {
      total = Op::Join(total, Op::Term(base[Offset(reduced, term)]));
    }
    target.Write(task, total);
  }
}

template <typename Op>
__global__ void JoinSplits(int64_t outputs, int64_t splits, const double* partial, Target target) {
  const Team<kWarp> team;
  for (int64_t output = team.first(); output < outputs; output += team.stride()) {
    double total = Op::kIdentity;
    for (int64_t split = team.member(); split < splits; split += kWarp) {
      total = Op::Join(total, partial[split * outputs + output]);
    }
    total = JoinLanes<Op>(total);
    if (team.member() == 0) target.Write(output, total);
  }
}

constexpr int kTeams = kThreads / kWarp;

template <typename Op>
const char* ReduceGroups(const KernelArgs& args, const Groups& groups, float* y, double scale) {
  if (!groups.is_valid) return "a reduction has more than 8 merged dimensions";
  if (groups.outputs == 0) return nullptr;
  const int64_t splits = Splits(groups), tasks = groups.outputs * splits;
  const cudaStream_t stream = Stream(args);
  const Target final = {nullptr, y, scale};
  const Target first = splits > 1 ? Target{static_cast<double*>(args.workspace), nullptr, 1} : final;
  const float* const x = args.in[0].as<const float>();
  const char* const error = Launch({stream, groups.inner_reduced ? Blocks(tasks, kTeams) : Blocks(tasks)},
                                   groups.inner_reduced ? WarpPerSplit<Op> : ThreadPerSplit<Op>, groups.kept,
                                   groups.reduced, groups.outputs, groups.terms, splits, x, first);
  if (error != nullptr || splits == 1) return error;
  using Joined = std::conditional_t<std::is_same_v<Op, SquareSum>, Sum, Op>;
  return Launch({stream, Blocks(groups.outputs, kTeams)}, JoinSplits<Joined>, groups.outputs, splits, first.partial,
                final);
}

Groups ByAxes(const KernelArgs& args) {
  std::vector<bool> is_reduced(args.in[0].rank, false);
  for (const int64_t axis : args.attrs->Ints("axes")) is_reduced[axis < 0 ? axis + args.in[0].rank : axis] = true;
  return Groups(args.in[0], is_reduced);
}

// Reduced are the leading dimensions that y lacks and those in which it has one element.
Groups ByShape(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const TensorArg& y = args.out[0];
  std::vector<bool> is_reduced(x.rank, true);
  for (int i = 0; i < y.rank; ++i) {
    const int axis = x.rank - y.rank + i;
    is_reduced[axis] = y.dims[i] != x.dims[axis];
  }
  return Groups(x, is_reduced);
}

Groups All(const KernelArgs& args) { return Groups(args.in[0], std::vector<bool>(args.in[0].rank, true)); }

template <Groups (*kGroups)(const KernelArgs&)>
size_t Workspace(const KernelArgs& args) {
  return ReduceWorkspace(kGroups(args));
}

template <typename Op, Groups (*kGroups)(const KernelArgs&)>
const char* Run(const KernelArgs& args) {
  return ReduceGroups<Op>(args, kGroups(args), args.out[0].as<float>(), 1);
}

// Divides by the logical count, so that the results of shards add up to the mean.
const char* ReduceMean(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  int64_t count = 1;
  for (const int64_t axis : args.attrs->Ints("axes")) count *= x.logical_dims[axis < 0 ? axis + x.rank : axis];
  return ReduceGroups<Sum>(args, ByAxes(args), args.out[0].as<float>(), 1.0 / static_cast<double>(count));
}

}  // namespace

size_t ReduceWorkspace(const Groups& groups) {
  const int64_t splits = Splits(groups);
  return splits == 1 ? 0 : static_cast<size_t>(splits * groups.outputs) * sizeof(double);
}

const char* LaunchSum(const KernelArgs& args, const Groups& groups, float* y, double scale) {
  return ReduceGroups<Sum>(args, groups, y, scale);
}

KernelList ReduceKernels() {
  constexpr DType kF32 = DType::kFloat32;
  return {{"reduce_sum", kF32, Run<Sum, ByAxes>, Workspace<ByAxes>},
          {"reduce_mean", kF32, ReduceMean, Workspace<ByAxes>},
          {"reduce_max", kF32, Run<Max, ByAxes>, Workspace<ByAxes>},
          {"reduce_min", kF32, Run<Min, ByAxes>, Workspace<ByAxes>},
          {"sum_to", kF32, Run<Sum, ByShape>, Workspace<ByShape>},
          {"square_sum", kF32, Run<SquareSum, All>, Workspace<All>}};
}

}  // namespace oneflow::cuda
