// The gradient of gelu(x) = x Phi(x), with the exact normal distribution: dx = dy (Phi(x) + x phi(x)).
//
// bias_add_gelu gives a bias' sum and its gelu, gelu_bias_grad the gradient of that sum and, of what it was rounded to,
// that of the bias.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/float_functions.cuh"

namespace oneflow::cuda {
namespace {

template <typename T>
struct AddBiasGelu {
  template <int kLanes>
  __device__ void operator()(int64_t i, int64_t column) const {
    float v[kLanes], bias[kLanes];
    ReadPack(x + i, v);
    ReadPack(b + column, bias);
    for (int k = 0; k < kLanes; ++k) v[k] = Widen(Narrow<T>(v[k] + bias[k]));
    WritePack(h + i, v);
    for (int k = 0; k < kLanes; ++k) v[k] = GeluOf(v[k]);
    WritePack(y + i, v);
  }
  const T* x;
  const float* b;
  T *h, *y;
};

// in: x, b; out: h, y.
template <typename T>
const char* BiasAddGelu(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const float* const b = args.in[1].as<const float>();
  T *const h = args.out[0].as<T>(), *const y = args.out[1].as<T>();
  return ForPacks<T>(Stream(args), Rows(args.in[0]), Columns(args.in[0]), {x, b, h, y}, AddBiasGelu<T>{x, b, h, y});
}

size_t SumsWorkspace(const KernelArgs& args) { return ColumnSumsBytes<1>(Rows(args.in[0]), Columns(args.in[0])); }

template <typename T>
struct GeluTerms {
  template <int kLanes>
  __device__ void operator()(int64_t, int64_t, int64_t i, float (&terms)[1][kLanes]) const {
    float slope[kLanes], at[kLanes];
    ReadPack(dy + i, slope);
    ReadPack(h + i, at);
    for (int k = 0; k < kLanes; ++k) terms[0][k] = Widen(Narrow<T>(GeluGradOf(slope[k], at[k])));
    WritePack(d + i, terms[0]);
  }
  const T *dy, *h;
  T* d;
};

// in: dy, h; out: d, db. What sums over rows comes to every element once, and writes d as it does.
template <typename T>
const char* GeluBiasGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  if (c == 0) return nullptr;
  const T *const dy = args.in[0].as<const T>(), *const h = args.in[1].as<const T>();
  T* const d = args.out[0].as<T>();
  return ColumnSums<1, T>(Stream(args), Rows(args.in[0]), c, {dy, h, d}, GeluTerms<T>{dy, h, d}, args.workspace,
                          {args.out[1].as<float>()});
}

}  // namespace

KernelList GeluKernels() {
  return {OF_FLOAT_KERNELS("bias_add_gelu", BiasAddGelu),
          OF_FLOAT_KERNELS("gelu_bias_grad", GeluBiasGrad, SumsWorkspace)};
}

}  // namespace oneflow::cuda
