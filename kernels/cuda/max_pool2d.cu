// Max pooling without padding. The forward pass keeps the position h * W + w of each maximum (the first of equal ones);
// the gradient adds to these positions. Windows may overlap, so a warp owns a plane (n, c) and walks through its
// outputs in order: sums are the same in every run, without atomics. An index outside the plane makes NaN of it: a
// launched kernel cannot return an error.
#include <cmath>

#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

template <typename T>
const char* MaxPool2d(const KernelArgs& args) {
  const int64_t kernel = args.attrs->Int("kernel"), stride = args.attrs->Int("stride", kernel);
  const int64_t height = args.in[0].dims[2], width = args.in[0].dims[3];
  const int64_t planes = args.out[0].dims[0] * args.out[0].dims[1];
  const T* const x = args.in[0].as<const T>();
  T* const y = args.out[0].as<T>();
  int32_t* const index = args.out[1].as<int32_t>();
  const auto find = [=] __device__(int64_t i, int64_t number, int64_t output_row, int64_t output_column) {
    const T* const plane = x + number * height * width;
    const int64_t top = output_row * stride, left = output_column * stride;
    int64_t best = top * width + left;
    for (int64_t row = top; row < top + kernel; ++row) {
      for (int64_t at = row * width + left; at < row * width + left + kernel; ++at) {
        const float value = Widen(plane[at]);
        if (value > Widen(plane[best]) || isnan(value)) best = at;
      }
    }
    y[i] = plane[best];
    index[i] = static_cast<int32_t>(best);
  };
  return ForEach(Stream(args), {planes, args.out[0].dims[2], args.out[0].dims[3]}, find);
}

template <typename T>
__global__ void MaxPoolGradKernel(int64_t planes, int64_t outputs, int64_t inputs, const T* all_dy,
                                  const int32_t* all_index, float* all_dx) {
  const Team<kWarp> team;
  for (int64_t plane = team.first(); plane < planes; plane += team.stride()) {
    const T* const dy = all_dy + plane * outputs;
    const int32_t* const index = all_index + plane * outputs;
    float* const dx = all_dx + plane * inputs;
    for (int64_t i = team.member(); i < inputs; i += kWarp) dx[i] = 0;
    __syncwarp();
    bool is_bad = false;
    for (int64_t begin = 0; begin < outputs; begin += kWarp) {
      const int64_t i = begin + team.member();
      const bool is_output = i < outputs && index[i] >= 0 && index[i] < inputs;
      is_bad = is_bad || (i < outputs && !is_output);
      const int position = is_output ? index[i] : -1 - team.member();  // nobody else's
      const float value = is_output ? Widen(dy[i]) : 0.0f;
      const unsigned same = __match_any_sync(0xffffffffu, position);
      // The first of the lanes with equal positions adds for all of them, in their order.
      const bool adds = is_output && (same & ((1u << team.member()) - 1)) == 0;
      float sum = adds ? dx[position] + value : 0.0f;
      if (__any_sync(0xffffffffu, __popc(same) > 1)) {
        for (int lane = 1; lane < kWarp; ++lane) {
          const float other = __shfl_sync(0xffffffffu, value, lane);
          if (lane != team.member() && (same >> lane & 1) != 0) sum += other;
        }
      }
      if (adds) dx[position] = sum;
      __syncwarp();  // the next outputs may add to the same positions
    }
    if (__any_sync(0xffffffffu, is_bad) == 0) continue;
    for (int64_t i = team.member(); i < inputs; i += kWarp) dx[i] = NAN;
  }
}

// in: dy, index.
// Narrow numbers are summed as floats in the workspace.
template <typename T>
size_t PlaneWorkspace(const KernelArgs& args) {
  return kIsHalf<T> ? static_cast<size_t>(args.out[0].count) * sizeof(float) : 0;
}

template <typename T>
const char* MaxPool2dGrad(const KernelArgs& args) {
  const TensorArg& dx = args.out[0];
  if (dx.count == 0) return nullptr;
  const int64_t planes = dx.dims[0] * dx.dims[1];
  float* const sums = kIsHalf<T> ? static_cast<float*>(args.workspace) : dx.as<float>();
  const char* const error = Launch({Stream(args), Blocks(planes, kThreads / kWarp)}, MaxPoolGradKernel<T>, planes,
                                   args.in[0].dims[2] * args.in[0].dims[3], dx.dims[2] * dx.dims[3],
                                   args.in[0].as<const T>(), args.in[1].as<const int32_t>(), sums);
  if (error != nullptr || !kIsHalf<T>) return error;
  T* const rounded = dx.as<T>();
  return ForEach(Stream(args), dx.count, [=] __device__(int64_t i) { rounded[i] = Narrow<T>(sums[i]); });
}

}  // namespace

KernelList MaxPool2dKernels() {
  return {OF_FLOAT_KERNELS("max_pool2d", MaxPool2d),
          {"max_pool2d_grad", DType::kFloat32, MaxPool2dGrad<float>},
          {"max_pool2d_grad", DType::kBFloat16, MaxPool2dGrad<BFloat16>, PlaneWorkspace<BFloat16>},
          {"max_pool2d_grad", DType::kFloat16, MaxPool2dGrad<Float16>, PlaneWorkspace<Float16>}};
}

}  // namespace oneflow::cuda
