// bias_add adds b[n] along one dimension; bias_grad sums all others away.
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/reduce.h"

namespace oneflow::cuda {
namespace {

int AxisOf(const KernelArgs& args) {
  const int64_t axis = args.attrs->Int("axis", -1);
  return static_cast<int>(axis < 0 ? axis + args.in[0].rank : axis);
}

const char* BiasAdd(const KernelArgs& args) {
  const int axis = AxisOf(args);
  const TensorArg& given = args.in[0];
  const int64_t outer = Product(given, 0, axis), inner = Product(given, axis + 1, given.rank);
  const float* const x = given.as<const float>();
  const float* const b = args.in[1].as<const float>();
  float* const y = args.out[0].as<float>();
  return ForEach(Stream(args), {outer, given.dims[axis], inner},
                 [=] __device__(int64_t i, int64_t, int64_t at, int64_t) { y[i] = x[i] + b[at]; });
}

Groups AllButAxis(const KernelArgs& args) {
  std::vector<bool> is_reduced(args.in[0].rank, true);
  is_reduced[AxisOf(args)] = false;
  return Groups(args.in[0], is_reduced);
}

size_t BiasGradWorkspace(const KernelArgs& args) { return ReduceWorkspace(AllButAxis(args)); }

const char* BiasGrad(const KernelArgs& args) { return LaunchSum(args, AllButAxis(args), args.out[0].as<float>()); }

}  // namespace

KernelList BiasKernels() {
  return {{"bias_add", DType::kFloat32, BiasAdd}, {"bias_grad", DType::kFloat32, BiasGrad, BiasGradWorkspace}};
}

}  // namespace oneflow::cuda
