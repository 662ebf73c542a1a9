// The gradient of gelu(x) = x Phi(x), with the exact normal distribution: dx = dy (Phi(x) + x phi(x)).
//
// bias_add_gelu gives a bias' sum and its gelu, gelu_bias_grad the gradient of that sum and, of what it was rounded to,
// that of the bias.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/float_functions.cuh"
#include "kernels/cuda/half.cuh"

namespace oneflow::cuda {
namespace {

// in: x, b; out: h, y.
template <typename T>
const char* BiasAddGelu(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const float* const b = args.in[1].as<const float>();
  T *const h = args.out[0].as<T>(), *const y = args.out[1].as<T>();
  return ForEach(Stream(args), {Rows(args.in[0]), Columns(args.in[0])},
                 [=] __device__(int64_t i, int64_t, int64_t column) {
                   h[i] = Narrow<T>(Widen(x[i]) + b[column]);
                   y[i] = Narrow<T>(GeluOf(Widen(h[i])));
                 });
}

size_t SumsWorkspace(const KernelArgs& args) { return ColumnSumsBytes<1>(Rows(args.in[0]), Columns(args.in[0])); }

// in: dy, h; out: d, db. What sums over rows comes to every element once, and writes d as it does.
template <typename T>
const char* GeluBiasGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  if (c == 0) return nullptr;
  const T *const dy = args.in[0].as<const T>(), *const h = args.in[1].as<const T>();
  T* const d = args.out[0].as<T>();
  const auto terms = [=] __device__(int64_t row, int64_t column) {
    const int64_t i = row * c + column;
    d[i] = Narrow<T>(GeluGradOf(Widen(dy[i]), Widen(h[i])));
    return Terms<1>{Widen(d[i])};
  };
  return ColumnSums<1>(Stream(args), Rows(args.in[0]), c, terms, args.workspace, {args.out[1].as<float>()});
}

}  // namespace

KernelList GeluKernels() {
  return {OF_FLOAT_KERNELS("bias_add_gelu", BiasAddGelu),
          OF_FLOAT_KERNELS("gelu_bias_grad", GeluBiasGrad, SumsWorkspace)};
}

}  // namespace oneflow::cuda
