// bias_add adds b[n] along one dimension; bias_grad sums all others away.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.h"

namespace oneflow::cuda {
namespace {

int AxisOf(const KernelArgs& args) {
  const int64_t axis = args.attrs->Int("axis", -1);
  return static_cast<int>(axis < 0 ? axis + args.in[0].rank : axis);
}

// x as [outer, n, inner]. Index is 32 bits wide where that suffices: a 64-bit division costs several times as much.
template <typename Index>
__global__ void BiasAddKernel(Index count, Index n, Index inner, const float* x, const float* b, float* y) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStride()) y[i] = x[i] + b[static_cast<Index>(i) / inner % n];
}

const char* BiasAdd(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const int axis = AxisOf(args);
  const int64_t n = x.dims[axis], inner = Product(x, axis + 1, x.rank);
  const float* const b = args.in[1].as<const float>();
  float* const y = args.out[0].as<float>();
  if (x.count <= INT32_MAX) {
    return Launch({Stream(args), Blocks(x.count)}, BiasAddKernel<uint32_t>, static_cast<uint32_t>(x.count),
                  static_cast<uint32_t>(n), static_cast<uint32_t>(inner), x.as<const float>(), b, y);
  }
  return Launch({Stream(args), Blocks(x.count)}, BiasAddKernel<int64_t>, x.count, n, inner, x.as<const float>(), b, y);
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
