// cumsum along one dimension of [outer, n, inner]. With an inner dimension a thread carries the sum of one line, and
// its neighbours read theirs; without one a warp scans a line, four elements per lane at a time. Sums are carried in
// pairs of floats.
#include "kernels/cuda/division.h"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

struct Lines {
  int64_t count, n, inner;  // of n elements, `inner` apart
  Divisor<uint64_t> lines_of_outer;
  bool reverse, exclusive;

  __device__ int64_t Begin(int64_t line) const {
    const auto [outer, at] = lines_of_outer.Divide(line);
    return static_cast<int64_t>(outer) * n * inner + static_cast<int64_t>(at);
  }
  __device__ int64_t Step(int64_t step) const { return (reverse ? n - 1 - step : step) * inner; }
};

// An element is read before it is written, in both: y may be x's memory.
__global__ void ThreadPerLine(Lines lines, const float* x, float* y) {
#pragma unroll 1
  for (int64_t line = FirstIndex(); line < lines.count; line += IndexStride()) {
    const int64_t begin = lines.Begin(line);
    FloatPair total = {};
    for (int64_t step = 0; step < lines.n; ++step) {
      const int64_t at = begin + lines.Step(step);
      const float before = total.Rounded();
      total.Add(x[at]);
      y[at] = lines.exclusive ? before : total.Rounded();
    }
  }
}

__device__ FloatPair FromLaneBelow(FloatPair value, int distance) {
  return {__shfl_up_sync(0xffffffffu, value.high, distance), __shfl_up_sync(0xffffffffu, value.low, distance)};
}
__device__ FloatPair FromLastLane(FloatPair value) {
  return {__shfl_sync(0xffffffffu, value.high, kWarp - 1), __shfl_sync(0xffffffffu, value.low, kWarp - 1)};
}

// Neighbouring elements of a lane, which share its part in the scan of the warp.
constexpr int kEachLane = 4;

__global__ void WarpPerLine(Lines lines, const float* x, float* y) {
  const Team<kWarp> team;
  const int lane = team.member();
  for (int64_t line = team.first(); line < lines.count; line += team.stride()) {
    const int64_t begin = lines.Begin(line);
    FloatPair carried = {};
    for (int64_t first = 0; first < lines.n; first += kWarp * kEachLane) {
      const int64_t step = first + lane * kEachLane;
      float run[kEachLane];
      FloatPair sum = {};
      for (int i = 0; i < kEachLane; ++i) {
        run[i] = step + i < lines.n ? x[begin + lines.Step(step + i)] : 0.0f;
        sum.Add(run[i]);
      }
      for (int distance = 1; distance < kWarp; distance *= 2) {
        const FloatPair other = FromLaneBelow(sum, distance);
        if (lane >= distance) sum = sum + other;
      }
      const FloatPair left = FromLaneBelow(sum, 1);  // the sum of the lanes below
      FloatPair total = lane == 0 ? carried : carried + left;
      for (int i = 0; i < kEachLane && step + i < lines.n; ++i) {
        const float before = total.Rounded();
        total.Add(run[i]);
        y[begin + lines.Step(step + i)] = lines.exclusive ? before : total.Rounded();
      }
      carried = carried + FromLastLane(sum);
    }
  }
}

const char* Cumsum(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const int axis = static_cast<int>(args.attrs->Int("axis"));
  const int64_t inner = Product(x, axis + 1, x.rank);
  const Lines lines = {
      Product(x, 0, axis) * inner,  x.dims[axis], inner, Divisor<uint64_t>(inner), args.attrs->Bool("reverse"),
      args.attrs->Bool("exclusive")};
  const float* const from = x.as<const float>();
  float* const to = args.out[0].as<float>();
  if (inner == 1) {
    return Launch({Stream(args), Blocks(lines.count, kThreads / kWarp)}, WarpPerLine, lines, from, to);
  }
  return Launch({Stream(args), Blocks(lines.count)}, ThreadPerLine, lines, from, to);
}

}  // namespace

KernelList CumsumKernels() { return {{"cumsum", DType::kFloat32, Cumsum}}; }

}  // namespace oneflow::cuda
