// layer_norm over the last dimension: y = (x - mean) rstd gamma + beta with rstd = 1/sqrt(variance + epsilon), and its
// gradient.
//
//   h = (x - mean) rstd,  g = dy gamma     dx = rstd (g - mean(g) - h mean(g h)),  dgamma = sum dy h,  dbeta = sum dy
//
// gamma, beta, their gradients and the statistics are f32, whatever x is.
//
// The sums over rows are taken in fixed blocks of rows and combined in order, whatever the number of threads.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

template <typename T>
const char* LayerNorm(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  const float* const gamma = args.in[1].as<const float>();
  const float* const beta = args.in[2].as<const float>();
  const float epsilon = static_cast<float>(args.attrs->Double("epsilon", 1e-5));
  ParallelFor(Rows(args.in[0]), Grain(2 * sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const x = args.in[0].as<const T>() + row * c;
      T* const y = args.out[0].as<T>() + row * c;
      F32s sum = Splat(0), squares = Splat(0);
      VecLoop(c, [&](int64_t i, auto lanes) { sum += Load(x + i, lanes); });
      const float mean = Sum(sum) / static_cast<float>(c);
      const F32s center = Splat(mean);
      VecLoop(c, [&](int64_t i, auto lanes) {
        const F32s d = Keep(Load(x + i, lanes) - center, lanes);
        squares += d * d;
      });
      const float rstd = 1.0f / std::sqrt(Sum(squares) / static_cast<float>(c) + epsilon);
      VecLoop(c, [&](int64_t i, auto lanes) {
        const F32s h = (Load(x + i, lanes) - center) * rstd;
        Store(y + i, h * Load(gamma + i, lanes) + Load(beta + i, lanes), lanes);
      });
      args.out[1].as<float>()[row] = mean;
      args.out[2].as<float>()[row] = rstd;
    }
  });
  return nullptr;
}

// One row of the gradient; adds to the block's sums.
template <typename T>
void GradRow(int64_t c, const T* dy, const T* x, const float* gamma, float mean, float rstd, T* dx, float* dgamma,
             float* dbeta) {
  const F32s center = Splat(mean), scale = Splat(rstd);
  F32s sum_g = Splat(0), sum_gh = Splat(0);
  VecLoop(c, [&](int64_t i, auto lanes) {
    const F32s d = Load(dy + i, lanes), g = d * Load(gamma + i, lanes);  // both 0 beyond the row
    const F32s h = (Load(x + i, lanes) - center) * scale;
    sum_g += g;
    sum_gh += g * h;
    Store(dgamma + i, Load(dgamma + i, lanes) + d * h, lanes);
    Store(dbeta + i, Load(dbeta + i, lanes) + d, lanes);
  });
  const F32s mean_g = Splat(Sum(sum_g) / static_cast<float>(c)), mean_gh = Splat(Sum(sum_gh) / static_cast<float>(c));
  VecLoop(c, [&](int64_t i, auto lanes) {
    const F32s g = Load(dy + i, lanes) * Load(gamma + i, lanes);
    const F32s h = (Load(x + i, lanes) - center) * scale;
    Store(dx + i, scale * (g - mean_g - h * mean_gh), lanes);
  });
}

// Two sums of c per block of rows.
size_t GradWorkspace(const KernelArgs& args) {
  return static_cast<size_t>(FixedBlocks(Rows(args.in[0])).count * 2 * Columns(args.in[0])) * sizeof(float);
}

// in: dy, x, gamma, mean, rstd; out: dx, dgamma, dbeta.
template <typename T>
const char* LayerNormGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  const T* const dy = args.in[0].as<const T>();
  const T* const x = args.in[1].as<const T>();
  const float* const gamma = args.in[2].as<const float>();
  const float* const mean = args.in[3].as<const float>();
  const float* const rstd = args.in[4].as<const float>();
  float* const partial = static_cast<float*>(args.workspace);
  const FixedBlocks blocks(Rows(args.in[0]));
  ParallelFor(blocks.count, Grain(3 * sizeof(T) * blocks.size * c), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      float* const sums = partial + block * 2 * c;
      std::fill(sums, sums + 2 * c, 0.0f);
      for (int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        GradRow(c, dy + row * c, x + row * c, gamma, mean[row], rstd[row], args.out[0].as<T>() + row * c, sums,
                sums + c);
      }
    }
  });
  for (int which = 0; which < 2; ++which) {
    float* const total = args.out[1 + which].as<float>();
    std::fill(total, total + c, 0.0f);
    for (int64_t block = 0; block < blocks.count; ++block) {
      for (int64_t i = 0; i < c; ++i) total[i] += partial[(block * 2 + which) * c + i];
    }
  }
  return nullptr;
}

}  // namespace

KernelList LayerNormKernels() {
  return {OF_FLOAT_KERNELS("layer_norm", LayerNorm), OF_FLOAT_KERNELS("layer_norm_grad", LayerNormGrad, GradWorkspace)};
}

}  // namespace oneflow::cpu
