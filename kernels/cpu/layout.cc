// Kernels that only move elements: reshape, transpose, slice and its gradient, concat, broadcast_to. All are box copies.
#include <vector>

#include "kernels/copy.h"
#include "kernels/cpu/kernels.h"

namespace oneflow::cpu {
namespace {

const char* Address(const TensorArg& x, int64_t element) {
  return x.as<const char>() + element * static_cast<int64_t>(SizeOf(x.dtype));
}

const char* CopyBox(DType dtype, const std::vector<int64_t>& extent, const void* source,
                    const std::vector<int64_t>& source_stride, const void* target,
                    const std::vector<int64_t>& target_stride) {
  return CopyRegion({dtype, extent, source, source_stride, const_cast<void*>(target), target_stride});
}

// A shard of a reshape is a reshape of the shard: the signatures guarantee it.
const char* Reshape(const KernelArgs& args) {
  if (args.in[0].count != args.out[0].count) return "reshape: input and output shards differ in size";
  return CopyBox(args.in[0].dtype, {args.in[0].count}, args.in[0].data, {1}, args.out[0].data, {1});
}

const char* Transpose(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const TensorArg& y = args.out[0];
  const std::vector<int64_t> perm = args.attrs->Ints("perm"), strides = Strides(x);
  std::vector<int64_t> extent(y.rank), source(y.rank);
  for (int i = 0; i < y.rank; ++i) {
    extent[i] = y.dims[i];
    source[i] = strides[perm[i]];
  }
  return CopyBox(x.dtype, extent, x.data, source, y.data, Strides(y));
}

int AxisOf(const TensorArg& x, const AttrMap& attrs) {
  const int64_t axis = attrs.Int("axis");
  return static_cast<int>(axis < 0 ? axis + x.rank : axis);
}

const char* Slice(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const TensorArg& y = args.out[0];
  const std::vector<int64_t> strides = Strides(x);
  const int64_t offset = args.attrs->Int("start") * strides[AxisOf(x, *args.attrs)];
  return CopyBox(x.dtype, {y.dims, y.dims + y.rank}, Address(x, offset), strides, y.data, Strides(y));
}

// in: dy; out: dy at `start` of the axis, zeros around it.
const char* SliceGrad(const KernelArgs& args) {
  const TensorArg& dy = args.in[0];
  const TensorArg& dx = args.out[0];
  const std::vector<int64_t> strides = Strides(dx);
  const int64_t offset = args.attrs->Int("start") * strides[AxisOf(dx, *args.attrs)];
  FillZero(dx.data, static_cast<size_t>(dx.count) * SizeOf(dx.dtype));
  return CopyBox(dy.dtype, {dy.dims, dy.dims + dy.rank}, dy.data, Strides(dy), Address(dx, offset), strides);
}

const char* Concat(const KernelArgs& args) {
  const TensorArg& y = args.out[0];
  const int axis = AxisOf(y, *args.attrs);
  const std::vector<int64_t> strides = Strides(y);
  int64_t at = 0;
  for (const TensorArg& x : args.in) {
    const char* error =
        CopyBox(x.dtype, {x.dims, x.dims + x.rank}, x.data, Strides(x), Address(y, at * strides[axis]), strides);
    if (error != nullptr) return error;
    at += x.dims[axis];
  }
  return nullptr;
}

const char* BroadcastTo(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const TensorArg& y = args.out[0];
  const std::vector<int64_t> strides = Strides(x);
  std::vector<int64_t> source(y.rank, 0);
  for (int i = 0; i < x.rank; ++i) {
    if (x.dims[i] != 1) source[y.rank - x.rank + i] = strides[i];
  }
  return CopyBox(x.dtype, {y.dims, y.dims + y.rank}, x.data, source, y.data, Strides(y));
}

}  // namespace

KernelList LayoutKernels() {
  KernelList kernels;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32, DType::kInt64,
                            DType::kUInt8, DType::kBool}) {
    kernels.push_back({"reshape", dtype, Reshape});
    kernels.push_back({"transpose", dtype, Transpose});
    kernels.push_back({"slice", dtype, Slice});
    kernels.push_back({"slice_grad", dtype, SliceGrad});
    kernels.push_back({"concat", dtype, Concat});
    kernels.push_back({"broadcast_to", dtype, BroadcastTo});
  }
  return kernels;
}

}  // namespace oneflow::cpu
