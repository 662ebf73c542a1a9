// Elementwise functions of one tensor, and the gradients of some. Outputs may lie in the inputs' memory.
#include "kernels/cuda/float_functions.cuh"
#include "kernels/cuda/half.cuh"

namespace oneflow::cuda {
namespace {

template <typename T, typename F>
const char* MapOne(const KernelArgs& args, F f) {
  return MapFloats(Stream(args), args.in[0].count, f, args.out[0].as<T>(), args.in[0].as<const T>());
}

template <typename T>
const char* Scale(const KernelArgs& args) {
  const float alpha = static_cast<float>(args.attrs->Double("alpha", 1));
  return MapOne<T>(args, [alpha] __device__(float x) { return alpha * x; });
}
template <typename T>
const char* AddScalar(const KernelArgs& args) {
  const float alpha = static_cast<float>(args.attrs->Double("alpha"));
  return MapOne<T>(args, [alpha] __device__(float x) { return x + alpha; });
}
template <typename T>
const char* Neg(const KernelArgs& args) {
  return MapOne<T>(args, [] __device__(float x) { return -x; });
}
#define OF_DEFINE_KERNEL(Name, ...)                                         \
  template <typename T>                                                     \
  const char* Name##Kernel(const KernelArgs& args) {                        \
    return MapOne<T>(args, [] __device__(float x) { return Name##Of(x); }); \
  }
ONEFLOW_UNARY_FUNCTIONS(OF_DEFINE_KERNEL)
#undef OF_DEFINE_KERNEL

// in: dy, x.
#define OF_DEFINE_KERNEL(Name, ...)                                                                   \
  template <typename T>                                                                               \
  const char* Name##Kernel(const KernelArgs& args) {                                                  \
    return MapFloats(                                                                                 \
        Stream(args), args.in[0].count, [] __device__(float dy, float x) { return Name##Of(dy, x); }, \
        args.out[0].as<T>(), args.in[0].as<const T>(), args.in[1].as<const T>());                     \
  }
ONEFLOW_GRADIENT_FUNCTIONS(OF_DEFINE_KERNEL)
#undef OF_DEFINE_KERNEL

// A functor, as nvcc takes no such lambda within a lambda over types.
struct PassSum {
  __device__ float operator()(float a, float b, float y) const { return ReluGradOf(a + b, y); }
};

// relu_grad of a gradient of two addends, each of a type of its own; in: a, b, y.
template <typename A>
const char* AddReluGrad(const KernelArgs& args) {
  return ByFloat(args.in[1].dtype, [&]<typename B>() {
    return ByFloat(args.in[2].dtype, [&]<typename T>() {
      return MapFloats(Stream(args), args.in[2].count, PassSum(), args.out[0].as<T>(), args.in[0].as<const A>(),
                       args.in[1].as<const B>(), args.in[2].as<const T>());
    });
  });
}

}  // namespace

KernelList UnaryKernels() { return {OF_UNARY_KERNELS}; }

}  // namespace oneflow::cuda
