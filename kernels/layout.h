// Kernels that only move elements: reshape, transpose, slice and its gradient, flip, concat,
// broadcast_to. All are box
// copies, so a device kind provides only the copy:
//
//   struct Device {
//     static const char* Copy(const KernelArgs&, DType, extent, source, source_stride, target, target_stride);
//     static const char* Zero(const KernelArgs&, const TensorArg&);   // sets an operand to zero
//   };
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/families.h"

namespace oneflow {

template <typename Device>
struct BoxCopies {
  using Ints = std::vector<int64_t>;

  // The address of an element.
  static char* Address(const TensorArg& x, int64_t element) {
    return x.as<char>() + element * static_cast<int64_t>(SizeOf(x.dtype));
  }
  static Ints Dims(const TensorArg& x) { return DimsInMemory(x); }
  static int AxisOf(const TensorArg& x, const AttrMap& attrs) {
    const int64_t axis = attrs.Int("axis");
    return static_cast<int>(axis < 0 ? axis + x.rank : axis);
  }

  // The signatures guarantee that a shard of the result is a reshape of a shard of the input.
  static const char* Reshape(const KernelArgs& args) {
    const TensorArg& x = args.in[0];
    if (x.count != args.out[0].count) return "reshape: input and output shards differ in size";
    return Device::Copy(args, x.dtype, {x.count}, x.data, {1}, args.out[0].data, {1});
  }

  static const char* Transpose(const KernelArgs& args) {
    const TensorArg& x = args.in[0];
    const TensorArg& y = args.out[0];
    const Ints perm = args.attrs->Ints("perm"), strides = Strides(x);
    Ints source(y.rank);
    for (int i = 0; i < y.rank; ++i) source[i] = strides[perm[i]];
    return Device::Copy(args, x.dtype, Dims(y), x.data, source, y.data, Strides(y));
  }

  static const char* Slice(const KernelArgs& args) {
    const TensorArg& x = args.in[0];
    const TensorArg& y = args.out[0];
    const Ints strides = Strides(x);
    const int64_t offset = args.attrs->Int("start") * strides[AxisOf(x, *args.attrs)];
    return Device::Copy(args, x.dtype, Dims(y), Address(x, offset), strides, y.data, Strides(y));
  }

  // Backwards through x along the axis.
  static const char* Flip(const KernelArgs& args) {
    const TensorArg& x = args.in[0];
    const TensorArg& y = args.out[0];
    if (x.count == 0) return nullptr;
    const int axis = AxisOf(x, *args.attrs);
    Ints strides = Strides(x);
    const int64_t last = (x.dims[axis] - 1) * strides[axis];
    strides[axis] = -strides[axis];
    return Device::Copy(args, x.dtype, Dims(y), Address(x, last), strides, y.data, Strides(y));
  }

  // in: dy; out: dy at `start` of the axis, zeros around it.
  static const char* SliceGrad(const KernelArgs& args) {
    const TensorArg& dy = args.in[0];
    const TensorArg& dx = args.out[0];
    const Ints strides = Strides(dx);
    const int64_t offset = args.attrs->Int("start") * strides[AxisOf(dx, *args.attrs)];
    if (const char* error = Device::Zero(args, dx)) return error;
    return Device::Copy(args, dy.dtype, Dims(dy), dy.data, Strides(dy), Address(dx, offset), strides);
  }

  static const char* Concat(const KernelArgs& args) {
    const TensorArg& y = args.out[0];
    const int axis = AxisOf(y, *args.attrs);
    const Ints strides = Strides(y);
    int64_t at = 0;
    for (const TensorArg& x : args.in) {
      const char* error =
          Device::Copy(args, x.dtype, Dims(x), x.data, Strides(x), Address(y, at * strides[axis]), strides);
      if (error != nullptr) return error;
      at += x.dims[axis];
    }
    return nullptr;
  }

  static const char* BroadcastTo(const KernelArgs& args) {
    const TensorArg& x = args.in[0];
    const TensorArg& y = args.out[0];
    const Ints strides = Strides(x);
    if (y.in_blocks()) {  // of a number per channel
      const Ints source = {strides[0], kBlockChannels, 0, 0, 1};
      return Device::Copy(args, x.dtype, Dims(y), x.data, source, y.data, Strides(y));
    }
    Ints source(y.rank, 0);
    for (int i = 0; i < x.rank; ++i) {
      if (x.dims[i] != 1) source[y.rank - x.rank + i] = strides[i];
    }
    return Device::Copy(args, x.dtype, Dims(y), x.data, source, y.data, Strides(y));
  }

  static KernelList Kernels() {
    KernelList kernels;
    for (const DType dtype : kAllDTypes) {
      kernels.push_back({"reshape", dtype, Reshape});
      kernels.push_back({"transpose", dtype, Transpose});
      kernels.push_back({"slice", dtype, Slice});
      kernels.push_back({"flip", dtype, Flip});
      kernels.push_back({"slice_grad", dtype, SliceGrad});
      kernels.push_back({"concat", dtype, Concat});
      kernels.push_back({"broadcast_to", dtype, BroadcastTo});
    }
    return kernels;
  }
};

}  // namespace oneflow
