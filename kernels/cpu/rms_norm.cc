// rms_norm over the last dimension: y = x rstd gamma with rstd = 1/sqrt(mean of x^2 + epsilon), and its gradient.
//
//   h = x rstd,  g = dy gamma     dx = rstd (g - h mean(g h)),  dgamma = sum dy h
//
// gamma, its gradient and rstd are f32, whatever x is.
//
// The sum over rows is taken in fixed blocks of rows and combined in order, whatever the number of threads.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

// in: x, gamma; out: y, rstd.
template <typename T>
const char* RmsNorm(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  const float* const gamma = args.in[1].as<const float>();
  const float epsilon = static_cast<float>(args.attrs->Double("epsilon", 1e-5));
  ParallelFor(Rows(args.in[0]), Grain(2 * sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const x = args.in[0].as<const T>() + row * c;
      T* const y = args.out[0].as<T>() + row * c;
      F32s squares = Splat(0);
      VecLoop(c, [&](int64_t i, auto lanes) {
        const F32s v = Load(x + i, lanes);  // 0 beyond the row
        squares += v * v;
      });
      const float rstd = 1.0f / std::sqrt(Sum(squares) / static_cast<float>(c) + epsilon);
      VecLoop(c,
              [&](int64_t i, auto lanes) { Store(y + i, Load(x + i, lanes) * rstd * Load(gamma + i, lanes), lanes); });
      args.out[1].as<float>()[row] = rstd;
    }
  });
  return nullptr;
}

// One row of the gradient; adds to the block's sums.
template <typename T>
void GradRow(int64_t c, const T* dy, const T* x, const float* gamma, float rstd, T* dx, float* dgamma) {
  const F32s scale = Splat(rstd);
  F32s sum_gh = Splat(0);
  VecLoop(c, [&](int64_t i, auto lanes) {
    const F32s dh = Load(dy + i, lanes) * (Load(x + i, lanes) * scale);  // 0 beyond the row
    sum_gh += dh * Load(gamma + i, lanes);
    Store(dgamma + i, Load(dgamma + i, lanes) + dh, lanes);
  });
  const F32s mean_gh = Splat(Sum(sum_gh) / static_cast<float>(c));
  VecLoop(c, [&](int64_t i, auto lanes) {
    const F32s g = Load(dy + i, lanes) * Load(gamma + i, lanes);
    Store(dx + i, scale * (g - Load(x + i, lanes) * scale * mean_gh), lanes);
  });
}

// A sum of c per block of rows.
size_t GradWorkspace(const KernelArgs& args) {
  return static_cast<size_t>(FixedBlocks(Rows(args.in[0])).count * Columns(args.in[0])) * sizeof(float);
}

// in: dy, x, gamma, rstd; out: dx, dgamma.
template <typename T>
const char* RmsNormGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  const T* const dy = args.in[0].as<const T>();
  const T* const x = args.in[1].as<const T>();
  const float* const gamma = args.in[2].as<const float>();
  const float* const rstd = args.in[3].as<const float>();
  T* const dx = args.out[0].as<T>();
  float* const dgamma = args.out[1].as<float>();
  float* const partial = static_cast<float*>(args.workspace);
  const FixedBlocks blocks(Rows(args.in[0]));
  ParallelFor(blocks.count, Grain(3 * sizeof(T) * blocks.size * c), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      float* const sums = partial + block * c;
      std::fill(sums, sums + c, 0.0f);
      for (int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        GradRow(c, dy + row * c, x + row * c, gamma, rstd[row], dx + row * c, sums);
      }
    }
  });
  std::fill(dgamma, dgamma + c, 0.0f);
  for (int64_t block = 0; block < blocks.count; ++block) {
    for (int64_t i = 0; i < c; ++i) dgamma[i] += partial[block * c + i];
  }
  return nullptr;
}

}  // namespace

KernelList RmsNormKernels() {
  return {OF_FLOAT_KERNELS("rms_norm", RmsNorm), OF_FLOAT_KERNELS("rms_norm_grad", RmsNormGrad, GradWorkspace)};
}

}  // namespace oneflow::cpu
