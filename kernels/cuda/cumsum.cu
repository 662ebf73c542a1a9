// cumsum along one dimension of [outer, n, inner]. With an inner dimension a thread carries the sum of one line, and
// its neighbours read theirs; without one a warp scans a line, 32 elements at a time. Sums are carried in double.
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

struct Lines {
  int64_t count, n, inner;  // of n elements, `inner` apart
  bool reverse, exclusive;

  __device__ int64_t Begin(int64_t line) const { return line / inner * n * inner + line % inner; }
  __device__ int64_t Step(int64_t step) const { return (reverse ? n - 1 - step : step) * inner; }
};

// An element is read before it is written, in both: y may be x's memory.
__global__ void ThreadPerLine(Lines lines, const float* x, float* y) {
  for (int64_t line = FirstIndex(); line < lines.count; line += IndexStride()) {
    const int64_t begin = lines.Begin(line);
    double total = 0;
    for (int64_t step = 0; step < lines.n; ++step) {
      const int64_t at = begin + lines.Step(step);
      const double before = total;
      total += x[at];
      y[at] = static_cast<float>(lines.exclusive ? before : total);
    }
  }
}

__global__ void WarpPerLine(Lines lines, const float* x, float* y) {
  const Team<kWarp> team;
  const int lane = team.member();
  for (int64_t line = team.first(); line < lines.count; line += team.stride()) {
    const int64_t begin = lines.Begin(line);
    double carried = 0;
    for (int64_t first = 0; first < lines.n; first += kWarp) {
      const int64_t step = first + lane, at = begin + lines.Step(step);
      double sum = step < lines.n ? x[at] : 0.0f;
      for (int distance = 1; distance < kWarp; distance *= 2) {
        const double other = __shfl_up_sync(0xffffffffu, sum, distance);
        if (lane >= distance) sum += other;
      }
      const double left = __shfl_up_sync(0xffffffffu, sum, 1);  // the sum that ends before this element
      const double before = lane == 0 ? 0.0 : left;
      if (step < lines.n) y[at] = static_cast<float>(carried + (lines.exclusive ? before : sum));
      carried += __shfl_sync(0xffffffffu, sum, kWarp - 1);
    }
  }
}

const char* Cumsum(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const int axis = static_cast<int>(args.attrs->Int("axis"));
  const int64_t inner = Product(x, axis + 1, x.rank);
  const Lines lines = {Product(x, 0, axis) * inner, x.dims[axis], inner, args.attrs->Bool("reverse"),
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
