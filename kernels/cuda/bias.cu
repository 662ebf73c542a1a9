// bias_add adds b[n] along one dimension; bias_grad sums all others away. bias_add_tanh adds along the last one.
#include "kernels/cuda/float_functions.cuh"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/reduce.h"

namespace oneflow::cuda {
namespace {

int AxisOf(const KernelArgs& args) { return static_cast<int>(WrappedAxis(args.in[0], args.attrs->Int("axis", -1))); }

template <typename T>
const char* BiasAdd(const KernelArgs& args) {
  const int axis = AxisOf(args);
  const TensorArg& given = args.in[0];
  const int64_t outer = Product(given, 0, axis), inner = Product(given, axis + 1, given.rank);
  const T* const x = given.as<const T>();
  const float* const b = args.in[1].as<const float>();
  T* const y = args.out[0].as<T>();
  return ForEach(Stream(args), {outer, given.dims[axis], inner},
                 [=] __device__(int64_t i, int64_t, int64_t at, int64_t) { y[i] = Narrow<T>(Widen(x[i]) + b[at]); });
}

// in: x, b; out: y = tanh(x + b). y may be x.
template <typename T>
const char* BiasAddTanh(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const float* const b = args.in[1].as<const float>();
  T* const y = args.out[0].as<T>();
  return ForEach(Stream(args), {Rows(args.in[0]), Columns(args.in[0])},
                 [=] __device__(int64_t i, int64_t, int64_t column) {
                   y[i] = Narrow<T>(alphabet::Tanh(Widen(x[i]) + b[column]));
                 });
}

Groups AllButAxis(const KernelArgs& args) {
  std::vector<bool> is_reduced(args.in[0].rank, true);
  is_reduced[AxisOf(args)] = false;
  return Groups(args.in[0], is_reduced);
}

size_t BiasGradWorkspace(const KernelArgs& args) { return ReduceWorkspace(AllButAxis(args)); }

const char* BiasGrad(const KernelArgs& args) { return LaunchSum(args, AllButAxis(args)); }

}  // namespace

KernelList BiasKernels() {
  return {OF_FLOAT_KERNELS("bias_add", BiasAdd), OF_FLOAT_KERNELS("bias_add_tanh", BiasAddTanh),
          OF_FLOAT_KERNEL("bias_grad", BiasGrad, BiasGradWorkspace)};
}

}  // namespace oneflow::cuda
