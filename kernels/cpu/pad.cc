// pad: a constant everywhere, then x in its place; both are box copies.
#include <vector>

#include "kernels/copy.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"

namespace oneflow::cpu {
namespace {

// A split dimension is not padded, so its margin is 0 in every shard too.
template <typename T>
const char* Pad(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const TensorArg& y = args.out[0];
  const T value = As<T>(args.attrs->Double("value"));
  const int64_t count[] = {y.count}, repeat[] = {0}, next[] = {1};
  if (const char* error = CopyRegion({y.dtype, count, &value, repeat, y.data, next})) return error;
  const std::vector<int64_t> before = args.attrs->Ints("before"), strides = Strides(y);
  int64_t offset = 0;
  for (int i = 0; i < y.rank; ++i) offset += before[i] * strides[i];
  const std::vector<int64_t> extent(x.dims, x.dims + x.rank), from = Strides(x);
  return CopyRegion({x.dtype, extent, x.data, from, y.as<T>() + offset, strides});
}

}  // namespace

KernelList PadKernels() {
  return {{"pad", DType::kFloat32, Pad<float>},   {"pad", DType::kBFloat16, Pad<BFloat16>},
          {"pad", DType::kFloat16, Pad<Float16>}, {"pad", DType::kInt32, Pad<int32_t>},
          {"pad", DType::kInt64, Pad<int64_t>},   {"pad", DType::kUInt8, Pad<uint8_t>},
          {"pad", DType::kBool, Pad<bool>}};
}

}  // namespace oneflow::cpu
