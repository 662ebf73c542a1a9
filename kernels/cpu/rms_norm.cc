// rms_norm over the last dimension: y = x rstd gamma with rstd = 1/sqrt(mean of x^2 + epsilon), and its gradient.
//
//   h = x rstd,  g = dy gamma     dx = rstd (g - h mean(g h)),  dgamma = sum dy h
//
// gamma, its gradient and rstd are f32, whatever x is. add_rms_norm is one of a sum, which it gives too;
// add_rms_norm_grad adds what else is known of dx.
//
// The sum over rows is taken in fixed blocks of rows and combined in order, whatever the number of threads.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

// One row; gives its rstd.
template <typename T>
float RmsNormRow(int64_t c, const T* x, const float* gamma, float epsilon, T* y) {
  F32s squares = Splat(0);
  VecLoop(c, [&](int64_t i, auto lanes) {
    const F32s v = Load(x + i, lanes);  // 0 beyond the row
    squares += v * v;
  });
  const float rstd = 1.0f / std::sqrt(Sum(squares) / static_cast<float>(c) + epsilon);
  VecLoop(c, [&](int64_t i, auto lanes) { Store(y + i, Load(x + i, lanes) * rstd * Load(gamma + i, lanes), lanes); });
  return rstd;
}

// Each row of `x` behind prepare(row, x); gamma is input `parameter`, y and rstd are outputs from `results` on.
// `operands` is how many tensors of x's size are touched.
template <typename T, typename Prepare>
const char* RmsNormRows(const KernelArgs& args, const T* x, int parameter, int results, int64_t operands,
                        Prepare prepare) {
  const int64_t c = Columns(args.in[0]);
  const float* const gamma = args.in[parameter].as<const float>();
  T* const y = args.out[results].as<T>();
  float* const rstd = args.out[results + 1].as<float>();
  const float epsilon = static_cast<float>(args.attrs->Double("epsilon", 1e-5));
  ParallelFor(Rows(args.in[0]), Grain(operands * static_cast<int64_t>(sizeof(T)) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      prepare(row * c, c);
      rstd[row] = RmsNormRow(c, x + row * c, gamma, epsilon, y + row * c);
    }
  });
  return nullptr;
}

// in: x, gamma; out: y, rstd.
template <typename T>
const char* RmsNorm(const KernelArgs& args) {
  return RmsNormRows(args, args.in[0].as<const T>(), 1, 0, 2, [](int64_t, int64_t) {});
}

// in: a, b, gamma; out: x, y, rstd.
template <typename T>
const char* AddRmsNorm(const KernelArgs& args) {
  const T *const a = args.in[0].as<const T>(), *const b = args.in[1].as<const T>();
  T* const x = args.out[0].as<T>();
  return RmsNormRows<T>(args, x, 2, 1, 4, [=](int64_t at, int64_t c) {
    VecLoop(
        c, [&](int64_t i, auto lanes) { Store(x + at + i, Load(a + at + i, lanes) + Load(b + at + i, lanes), lanes); });
  });
}

// One row of the gradient, finish(dx, i, lanes); adds to the block's sums.
template <typename T, typename Finish>
void GradRow(int64_t c, const T* dy, const T* x, const float* gamma, float rstd, T* dx, float* dgamma, Finish finish) {
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
    Store(dx + i, finish(scale * (g - Load(x + i, lanes) * scale * mean_gh), i, lanes), lanes);
  });
}

// A sum of c per block of rows.
size_t GradWorkspace(const KernelArgs& args) { return ColumnSumsWorkspace(Rows(args.in[0]), Columns(args.in[0])); }

// dx = finish(dx, at, lanes); inputs from `first` on: dy, x, gamma, rstd; out: dx, dgamma.
template <typename T, typename Finish>
const char* RmsNormGradRows(const KernelArgs& args, int first, int64_t operands, Finish finish) {
  const int64_t c = Columns(args.in[first]);
  const T *const dy = args.in[first].as<const T>(), *const x = args.in[first + 1].as<const T>();
  const float* const gamma = args.in[first + 2].as<const float>();
  const float* const rstd = args.in[first + 3].as<const float>();
  T* const dx = args.out[0].as<T>();
  const int64_t row_bytes = operands * static_cast<int64_t>(sizeof(T)) * c;
  SumColumns<1>(Rows(args.in[first]), c, row_bytes, args.workspace, {args.out[1].as<float>()},
                [&](int64_t begin, int64_t end, float* sums) {
                  for (int64_t row = begin; row < end; ++row) {
                    const int64_t at = row * c;
                    GradRow(c, dy + at, x + at, gamma, rstd[row], dx + at, sums,
                            [&](F32s d, int64_t i, auto lanes) OF_INLINED { return finish(d, at + i, lanes); });
                  }
                });
  return nullptr;
}

template <typename T>
const char* RmsNormGrad(const KernelArgs& args) {
  return RmsNormGradRows<T>(args, 0, 3, [](F32s d, int64_t, auto) OF_INLINED { return d; });
}
// in: r and those of rms_norm_grad; out: the sum of r and dx, dgamma.
template <typename T>
const char* AddRmsNormGrad(const KernelArgs& args) {
  const T* const r = args.in[0].as<const T>();
  return RmsNormGradRows<T>(args, 1, 4,
                            [=](F32s d, int64_t at, auto lanes) OF_INLINED { return Load(r + at, lanes) + Apart(d); });
}

}  // namespace

KernelList RmsNormKernels() {
  return {OF_FLOAT_KERNELS("rms_norm", RmsNorm), OF_FLOAT_KERNELS("rms_norm_grad", RmsNormGrad, GradWorkspace),
          OF_FLOAT_KERNELS("add_rms_norm", AddRmsNorm),
          OF_FLOAT_KERNELS("add_rms_norm_grad", AddRmsNormGrad, GradWorkspace)};
}

}  // namespace oneflow::cpu
