// cumsum along one dimension of [outer, n, inner]: a strip of inner elements carries its sums, in double, from one step
// to the next.
#include <algorithm>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

namespace oneflow::cpu {
namespace {

// Sums that are carried together: 2 KiB of doubles.
constexpr int64_t kStrip = 256;

// An element is read before it is written, so y may be x's memory.
const char* Cumsum(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const int axis = static_cast<int>(args.attrs->Int("axis"));
  const bool reverse = args.attrs->Bool("reverse"), exclusive = args.attrs->Bool("exclusive");
  const int64_t outer = Product(x, 0, axis), n = x.dims[axis], inner = Product(x, axis + 1, x.rank);
  const int64_t strips = (inner + kStrip - 1) / kStrip;
  const float* const from = x.as<const float>();
  float* const to = args.out[0].as<float>();
  ParallelFor(outer * strips, Grain(2 * sizeof(float) * n * std::min(kStrip, inner)), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task % strips * kStrip, width = std::min(kStrip, inner - column);
      const int64_t base = task / strips * n * inner + column;
      double total[kStrip] = {};
      for (int64_t step = 0; step < n; ++step) {
        const int64_t at = base + (reverse ? n - 1 - step : step) * inner;
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) {
          const double before = total[i], after = before + static_cast<double>(from[at + i]);
          total[i] = after;
          to[at + i] = static_cast<float>(exclusive ? before : after);
        }
      }
    }
  });
  return nullptr;
}

}  // namespace

KernelList CumsumKernels() { return {{"cumsum", DType::kFloat32, Cumsum}}; }

}  // namespace oneflow::cpu
