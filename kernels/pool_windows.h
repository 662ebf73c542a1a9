// The windows of average pooling along one dimension: which elements a window covers, and which windows cover an
// element. Standard library only, so that CUDA sources may include it.
//
//   avg_pool2d            window i begins at i * stride - padding and has `kernel` elements, those of the padding too
//   adaptive_avg_pool2d   window i of m is [floor(i n / m), ceil((i + 1) n / m)) of n elements
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/kernel.h"

namespace oneflow {

struct PoolRange {
  int64_t begin = 0, end = 0;
};

struct PoolWindows {
  // Of `elements` elements, `windows` windows. Without an attribute `kernel` they are adaptive.
  PoolWindows(const AttrMap& attrs, int64_t elements, int64_t windows)
      : elements(elements),
        windows(windows),
        kernel(attrs.Int("kernel")),
        stride(attrs.Int("stride", 1)),
        padding(attrs.Int("padding")) {}

  // The elements of window `i`.
  OF_HOST_DEVICE PoolRange Elements(int64_t i) const {
    if (kernel == 0) return {i * elements / windows, Quotient((i + 1) * elements, windows)};
    const int64_t begin = i * stride - padding, end = begin + kernel;
    return {begin < 0 ? 0 : begin, end < elements ? end : elements};
  }
  // The windows that cover element `at`.
  OF_HOST_DEVICE PoolRange Windows(int64_t at) const {
    if (kernel == 0) return {at * windows / elements, Quotient((at + 1) * windows, elements)};
    const int64_t behind = at + padding - kernel;  // of the last window that ends before `at`
    const int64_t begin = behind < 0 ? 0 : behind / stride + 1, end = (at + padding) / stride + 1;
    return {begin, end < windows ? end : windows};
  }
  // How many elements window `i` takes the mean of.
  OF_HOST_DEVICE int64_t Length(int64_t i) const {
    const PoolRange range = Elements(i);
    return kernel == 0 ? range.end - range.begin : kernel;
  }

  int64_t elements, windows, kernel, stride, padding;

 private:
  // Rounded up.
  OF_HOST_DEVICE static int64_t Quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }
};

// How an element of the result is gathered: the mean of its window, or, of the gradient, the shares of the windows that
// cover it.
template <bool kGradient>
struct PoolGather {
  PoolGather(const AttrMap& attrs, const TensorArg& from, const TensorArg& to)
      : rows(attrs, (kGradient ? to : from).dims[2], (kGradient ? from : to).dims[2]),
        columns(attrs, (kGradient ? to : from).dims[3], (kGradient ? from : to).dims[3]) {}

  OF_HOST_DEVICE PoolRange Rows(int64_t row) const { return kGradient ? rows.Windows(row) : rows.Elements(row); }
  OF_HOST_DEVICE PoolRange Columns(int64_t column) const {
    return kGradient ? columns.Windows(column) : columns.Elements(column);
  }
  // What element (row, column) of the result takes of element (r, s).
  OF_HOST_DEVICE float Share(int64_t row, int64_t column, int64_t r, int64_t s) const {
    return 1.0f / static_cast<float>(rows.Length(kGradient ? r : row) * columns.Length(kGradient ? s : column));
  }

  PoolWindows rows, columns;
};

}  // namespace oneflow
