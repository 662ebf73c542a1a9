// layer_norm over the last dimension: y = (x - mean) rstd gamma + beta with rstd = 1/sqrt(variance + epsilon), and its
// gradient.
//
//   h = (x - mean) rstd,  g = dy gamma     dx = rstd (g - mean(g) - h mean(g h)),  dgamma = sum dy h,  dbeta = sum dy
//
// gamma, beta, their gradients and the statistics are f32, whatever x is. add_layer_norm is one of a sum, which it
// gives too; add_layer_norm_grad adds what else is known of dx.
//
// The sums over rows are taken in fixed blocks of rows and combined in order, whatever the number of threads.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

struct RowStatistics {
  float mean, rstd;
};

// One row.
template <typename T>
RowStatistics LayerNormRow(int64_t c, const T* x, const float* gamma, const float* beta, float epsilon, T* y) {
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
  return {mean, rstd};
}

// Each row of `x` behind prepare(row, x); gamma and beta are inputs from `parameters` on, y, mean and rstd outputs from
// `results` on. `operands` is how many tensors of x's size are touched.
template <typename T, typename Prepare>
const char* LayerNormRows(const KernelArgs& args, const T* x, int parameters, int results, int64_t operands,
                          Prepare prepare) {
  const int64_t c = Columns(args.in[0]);
  const float* const gamma = args.in[parameters].as<const float>();
  const float* const beta = args.in[parameters + 1].as<const float>();
  T* const y = args.out[results].as<T>();
  float *const mean = args.out[results + 1].as<float>(), *const rstd = args.out[results + 2].as<float>();
  const float epsilon = static_cast<float>(args.attrs->Double("epsilon", 1e-5));
  ParallelFor(Rows(args.in[0]), Grain(operands * static_cast<int64_t>(sizeof(T)) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      prepare(row * c, c);
      const RowStatistics of_row = LayerNormRow(c, x + row * c, gamma, beta, epsilon, y + row * c);
      mean[row] = of_row.mean;
      rstd[row] = of_row.rstd;
    }
  });
  return nullptr;
}

template <typename T>
const char* LayerNorm(const KernelArgs& args) {
  return LayerNormRows(args, args.in[0].as<const T>(), 1, 0, 2, [](int64_t, int64_t) {});
}

// in: a, b, gamma, beta; out: x, y, mean, rstd.
template <typename T>
const char* AddLayerNorm(const KernelArgs& args) {
  const T *const a = args.in[0].as<const T>(), *const b = args.in[1].as<const T>();
  T* const x = args.out[0].as<T>();
  return LayerNormRows<T>(args, x, 2, 1, 4, [=](int64_t at, int64_t c) {
    VecLoop(
        c, [&](int64_t i, auto lanes) { Store(x + at + i, Load(a + at + i, lanes) + Load(b + at + i, lanes), lanes); });
  });
}

// One row of the gradient, finish(dx, i, lanes); adds to the block's sums.
template <typename T, typename Finish>
void GradRow(int64_t c, const T* dy, const T* x, const float* gamma, RowStatistics of_row, T* dx, float* dgamma,
             float* dbeta, Finish finish) {
  const F32s center = Splat(of_row.mean), scale = Splat(of_row.rstd);
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
    Store(dx + i, finish(scale * (g - mean_g - h * mean_gh), i, lanes), lanes);
  });
}

// Two sums of c per block of rows.
size_t GradWorkspace(const KernelArgs& args) { return ColumnSumsWorkspace(Rows(args.in[0]), 2 * Columns(args.in[0])); }

// dx = finish(dx, at, lanes); inputs from `first` on: dy, x, gamma, mean, rstd; out: dx, dgamma, dbeta.
template <typename T, typename Finish>
const char* LayerNormGradRows(const KernelArgs& args, int first, int64_t operands, Finish finish) {
  const int64_t c = Columns(args.in[first]);
  const T *const dy = args.in[first].as<const T>(), *const x = args.in[first + 1].as<const T>();
  const auto numbers = [&](int i) { return args.in[first + i].as<const float>(); };
  const float *const gamma = numbers(2), *const mean = numbers(3), *const rstd = numbers(4);
  T* const dx = args.out[0].as<T>();
  const int64_t row_bytes = operands * static_cast<int64_t>(sizeof(T)) * c;
  SumColumns<2>(Rows(args.in[first]), c, row_bytes, args.workspace, {args.out[1].as<float>(), args.out[2].as<float>()},
                [&](int64_t begin, int64_t end, float* sums) {
                  for (int64_t row = begin; row < end; ++row) {
                    const int64_t at = row * c;
                    GradRow(c, dy + at, x + at, gamma, {mean[row], rstd[row]}, dx + at, sums, sums + c,
                            [&](F32s d, int64_t i, auto lanes) OF_INLINED { return finish(d, at + i, lanes); });
                  }
                });
  return nullptr;
}

template <typename T>
const char* LayerNormGrad(const KernelArgs& args) {
  return LayerNormGradRows<T>(args, 0, 3, [](F32s d, int64_t, auto) OF_INLINED { return d; });
}
// in: r and those of layer_norm_grad; out: the sum of r and dx, dgamma, dbeta.
template <typename T>
const char* AddLayerNormGrad(const KernelArgs& args) {
  const T* const r = args.in[0].as<const T>();
  return LayerNormGradRows<T>(
      args, 1, 4, [=](F32s d, int64_t at, auto lanes) OF_INLINED { return Load(r + at, lanes) + Apart(d); });
}

}  // namespace

KernelList LayerNormKernels() {
  return {OF_FLOAT_KERNELS("layer_norm", LayerNorm), OF_FLOAT_KERNELS("layer_norm_grad", LayerNormGrad, GradWorkspace),
          OF_FLOAT_KERNELS("add_layer_norm", AddLayerNorm),
          OF_FLOAT_KERNELS("add_layer_norm_grad", AddLayerNormGrad, GradWorkspace)};
}

}  // namespace oneflow::cpu
