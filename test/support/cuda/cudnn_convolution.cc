// The three operations are one loop: each makes the planes of its result one after another, and each plane is a sum
// over a third dimension of two operands' planes.
//
//   result           sum over    of
//   y  [n, k] oh*ow  c           x [n, c], w [k, c]
//   dx [n, c] h*w    k           dy[n, k], w [k, c]
//   dw [k, c] r*s    n           x [n, c], dy[n, k]
//
// With groups, w has the channels c of one group, and k and x's channels that meet are of the same group.
//
// A plane's sums are made in the workspace of the algorithms that ask for one, so that memory which is not the caller's
// own is noticed. Those that call themselves non-deterministic begin the sum elsewhere in every run, and those that
// transform what tensor cores multiply give sums of as many bits as these have.
//
// Tensors of 16-bit floats are widened first and the result is rounded once.
#include "test/support/cuda/cudnn_convolution.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <type_traits>
#include <vector>

#include "test/support/cuda/memory.h"
#include "test/support/cuda/software_device.h"

namespace oneflow::software_cuda {
namespace cudnn {
namespace {

float ToFloat(float x) { return x; }
float ToFloat(__half x) { return __half2float(x); }
float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
void FromFloat(float x, float* y) { *y = x; }
void FromFloat(float x, __half* y) { *y = __float2half_rn(x); }
void FromFloat(float x, __nv_bfloat16* y) { *y = __float2bfloat16_rn(x); }

// An operand's elements as floats: in place, or as a copy.
struct Floats {
  template <typename T>
  static Floats Of(const void* data, const Shape& shape, bool tf32) {
    Floats floats;
    floats.data = static_cast<const float*>(data);
    if (data == nullptr || (std::is_same_v<T, float> && !tf32)) return floats;
    const T* const elements = static_cast<const T*>(data);
    for (int64_t i = 0; i < shape.count(); ++i) {
      floats.copy.push_back(tf32 ? RoundToTf32(ToFloat(elements[i])) : ToFloat(elements[i]));
    }
    floats.data = floats.copy.data();
    return floats;
  }

  std::vector<float> copy;
  const float* data = nullptr;
};

bool CheckMemory(const Work& w) {
  std::vector<Operand> operands;
  const auto add = [&](const char* name, const void* data, size_t bytes, bool written) {
    if (data != nullptr) operands.push_back({name, data, bytes, written});
  };
  add("x", w.x, w.p.x.num_bytes(), false);
  add("w", w.w, w.p.w.num_bytes(), false);
  add("y", w.y, w.p.y.num_bytes(), false);
  add("the result", w.result, w.p.result().num_bytes(), true);
  add("workspace", w.workspace, w.workspace_bytes, true);
  return CheckOperands(operands);
}

// Of the positions of a window along one dimension, those where its element `tap` is not in the padding: [begin, end).
struct Range {
  int64_t begin, end;
};
Range Inside(int64_t tap, int64_t in, int64_t positions, int64_t pad, int64_t stride, int64_t dilation) {
  const int64_t shift = pad - tap * dilation;  // position i meets the element i * stride - shift
  const int64_t begin = shift <= 0 ? 0 : (shift + stride - 1) / stride;
  const int64_t end = in + shift <= 0 ? 0 : (in + shift - 1) / stride + 1;
  return {std::min(begin, positions), std::min(end, positions)};
}

// Calls `row(x, w, y, count)` with offsets into the three planes: elements x, x + stride_w, ... meet y, y + 1, ...
// under w.
template <typename F>
void ForEachRow(const Problem& p, F row) {
  const cudnnConvolutionStruct& v = p.convolution;
  for (int64_t r = 0; r < p.w.h; ++r) {
    const Range rows = Inside(r, p.x.h, p.y.h, v.pad_h, v.stride_h, v.dilation_h);
    for (int64_t s = 0; s < p.w.w; ++s) {
      const Range columns = Inside(s, p.x.w, p.y.w, v.pad_w, v.stride_w, v.dilation_w);
      if (columns.begin >= columns.end) continue;
      const int64_t x_column = columns.begin * v.stride_w - v.pad_w + s * v.dilation_w;
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        const int64_t x_row = i * v.stride_h - v.pad_h + r * v.dilation_h;
        row(x_row * p.x.w + x_column, r * p.w.w + s, i * p.y.w + columns.begin, columns.end - columns.begin);
      }
    }
  }
}

// Adds what one plane of each of the operands contributes to a plane of the result.
void AddPlane(const Problem& p, const float* x, const float* w, const float* y, float* sums) {
  const int64_t step = p.convolution.stride_w;
  switch (p.operation) {
    case Operation::kForward:
      return ForEachRow(p, [=](int64_t x_at, int64_t w_at, int64_t y_at, int64_t count) {
        const float factor = w[w_at];
        for (int64_t i = 0; i < count; ++i) sums[y_at + i] += factor * x[x_at + i * step];
      });
    case Operation::kBackwardData:
      return ForEachRow(p, [=](int64_t x_at, int64_t w_at, int64_t y_at, int64_t count) {
        const float factor = w[w_at];
        for (int64_t i = 0; i < count; ++i) sums[x_at + i * step] += factor * y[y_at + i];
      });
    case Operation::kBackwardFilter:
      return ForEachRow(p, [=](int64_t x_at, int64_t w_at, int64_t y_at, int64_t count) {
        float sum = 0;
        for (int64_t i = 0; i < count; ++i) sum += x[x_at + i * step] * y[y_at + i];
        sums[w_at] += sum;
      });
  }
}

// The indices n, k, and c within a group, of the planes that meet, given those of the result's plane and of what is
// summed over.
struct Planes {
  int64_t n, c, k;
};
Planes At(const Problem& p, int64_t outer, int64_t inner, int64_t summed) {
  if (p.operation == Operation::kForward) return {.n = outer, .c = summed, .k = inner};
  if (p.operation == Operation::kBackwardFilter) return {.n = summed, .c = inner, .k = outer};
  const int64_t group = inner / p.w.c, of_group = p.w.n / p.convolution.groups;
  return {.n = outer, .c = inner % p.w.c, .k = group * of_group + summed};
}

int64_t Summed(const Problem& p) {
  return p.operation == Operation::kForward        ? p.w.c
         : p.operation == Operation::kBackwardData ? p.w.n / p.convolution.groups
                                                   : p.x.n;
}

struct Operands {
  Floats x, w, y;
};

void SumPlane(const Work& work, const Operands& of, int64_t outer, int64_t inner, float* sums) {
  const Problem& p = work.p;
  const auto plane = [](const Floats& floats, const Shape& shape, int64_t i, int64_t j) {
    return floats.data == nullptr ? nullptr : floats.data + (i * shape.c + j) * shape.plane();
  };
  std::fill_n(sums, p.result().plane(), 0.f);
  for (int64_t i = 0, count = Summed(p); i < count; ++i) {
    const Planes at = At(p, outer, inner, (work.first + i) % count);
    const int64_t channel = at.k / (p.w.n / p.convolution.groups) * p.w.c + at.c;
    AddPlane(p, plane(of.x, p.x, at.n, channel), plane(of.w, p.w, at.k, at.c), plane(of.y, p.y, at.n, at.k), sums);
  }
}

template <typename T>
void RunAs(const Work& work) {
  const Shape& shape = work.p.result();
  const bool tf32 = std::is_same_v<T, float> && work.p.convolution.math != CUDNN_FMA_MATH;
  const Operands of = {Floats::Of<T>(work.x, work.p.x, tf32), Floats::Of<T>(work.w, work.p.w, tf32),
                       Floats::Of<T>(work.y, work.p.y, tf32)};
  std::vector<float> own(work.workspace == nullptr ? shape.plane() : 0);
  float* const sums = work.workspace == nullptr ? own.data() : work.workspace;
  T* result = static_cast<T*>(work.result);
  for (int64_t i = 0; i < shape.n; ++i) {
    for (int64_t j = 0; j < shape.c; ++j) {
      SumPlane(work, of, i, j, sums);
      for (int64_t e = 0; e < shape.plane(); ++e, ++result) {
        const float sum = work.alpha * (work.rounds ? ToFloat(__float2bfloat16_rn(sums[e])) : sums[e]);
        FromFloat(work.beta == 0 ? sum : sum + work.beta * ToFloat(*result), result);
      }
    }
  }
}

std::atomic<int> times[kConvolutionAlgorithms] = {};  // microseconds

void TakeTime(int algorithm) {
  const int microseconds = times[algorithm];
  if (microseconds > 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

}  // namespace

void Run(const Work& work) {
  if (!CheckMemory(work)) return;
  TakeTime(work.algorithm);
  const cudnnDataType_t type = work.p.x.type;
  type == CUDNN_DATA_HALF       ? RunAs<__half>(work)
  : type == CUDNN_DATA_BFLOAT16 ? RunAs<__nv_bfloat16>(work)
                                : RunAs<float>(work);
}

}  // namespace cudnn

void SetTimesOfConvolutions(const std::array<int, kConvolutionAlgorithms>& microseconds) {
  for (int i = 0; i < kConvolutionAlgorithms; ++i) cudnn::times[i] = microseconds[i];
}

}  // namespace oneflow::software_cuda
