// Strided box copies: dimensions that lie together in both boxes are merged, then these cases remain:
//
//   one contiguous run                   the driver's copy
//   the source runs along another        32x32 tiles through shared memory, so that both sides use whole lines
//   dimension (a transpose)
//   anything else                        a thread per element, which is 16 bytes where everything is divisible
#include <vector>

#include "kernels/cuda/combine.cuh"
#include "kernels/cuda/copy.h"
#include "kernels/cuda/loops.cuh"

namespace oneflow::cuda {
namespace {

// A copy's dimensions. Operand 0 is the source, 1 the target.
using Box = std::vector<LoopDim<2>>;

// Bytes of the largest unit, up to 16, in which the box can be copied; its inner dimension is then counted in such
// units.
size_t WidenUnit(const BoxCopy& copy, Box* box) {
  const int64_t size = static_cast<int64_t>(SizeOf(copy.dtype));
  LoopDim<2>& inner = box->back();
  if (inner.stride[0] != 1 || inner.stride[1] != 1) return size;
  const auto outer_strides = [&](auto f) {
    for (size_t i = 0; i + 1 < box->size(); ++i) {
      for (int64_t& stride : (*box)[i].stride) f(stride);
    }
  };
  int64_t all = reinterpret_cast<int64_t>(copy.source) | reinterpret_cast<int64_t>(copy.target) | inner.extent * size;
  outer_strides([&](int64_t& stride) { all |= stride * size; });
  int64_t unit = 16;
  while (unit > size && all % unit != 0) unit /= 2;
  inner.extent /= unit / size;
  outer_strides([&](int64_t& stride) { stride /= unit / size; });
  return static_cast<size_t>(unit);
}

constexpr int kTile = 32;     // a warp's line of a tile
constexpr int kTileRows = 8;  // of threads: each copies 32 / 8 elements of a column
static_assert(kTile * kTileRows == kThreads);

struct Dim {
  explicit Dim(const LoopDim<2>& dim) : extent(dim.extent), source(dim.stride[0]), target(dim.stride[1]) {}
  int64_t tiles() const { return (extent + kTile - 1) / kTile; }
  int64_t extent, source, target;
};

// How tiles are numbered: along `inner` first, then along `across`, then through the other dimensions.
template <typename Index>
struct Tiles {
  int64_t count;
  Divisor<Index> inner, across;
  StridedLoop<Index, 2> outer;
};

// `inner` runs through the target's memory, `across` through the source's.
template <typename T, typename Index>
__global__ void TransposeKernel(Tiles<Index> tiles, Dim inner, Dim across, const T* source, T* target) {
  __shared__ T tile[kTile][kTile + 1];  // one more: a column touches all banks
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  for (int64_t number = blockIdx.x; number < tiles.count; number += gridDim.x) {
    const auto [rest, inner_tile] = tiles.inner.Divide(static_cast<Index>(number));
    const auto [place, across_tile] = tiles.across.Divide(rest);
    const int64_t inner_first = static_cast<int64_t>(inner_tile) * kTile;
    const int64_t across_first = static_cast<int64_t>(across_tile) * kTile;
    const Offsets<2> at = tiles.outer.At(place);
    __syncthreads();  // the last tile is written
    for (int row = y; row < kTile; row += kTileRows) {
      const int64_t i = inner_first + row, a = across_first + x;
      if (i < inner.extent && a < across.extent) tile[row][x] = source[at.of[0] + i * inner.source + a * across.source];
    }
    __syncthreads();
    for (int row = y; row < kTile; row += kTileRows) {
      const int64_t i = inner_first + x, a = across_first + row;
      if (i < inner.extent && a < across.extent) target[at.of[1] + i * inner.target + a * across.target] = tile[x][row];
    }
  }
}

// The dimension other than the innermost along which the source runs, if tiles pay; else -1.
int AcrossOf(const Box& box) {
  constexpr int64_t kWorthATile = 8;
  const LoopDim<2>& inner = box.back();
  if (inner.stride[0] == 1 || inner.stride[1] != 1 || inner.extent < kWorthATile) return -1;
  for (size_t i = 0; i + 1 < box.size(); ++i) {
    if (box[i].stride[0] == 1 && box[i].extent >= kWorthATile) return static_cast<int>(i);
  }
  return -1;
}

template <typename T>
const char* Transpose(cudaStream_t stream, Box box, int across_at, const T* source, T* target) {
  const Dim inner(box.back()), across(box[across_at]);
  box.pop_back();
  box.erase(box.begin() + across_at);
  const int64_t count = inner.tiles() * across.tiles() * Count(box);
  return WithIndex(count, [&](auto index) {
    using Index = decltype(index);
    const Tiles<Index> tiles = {count, Divisor<Index>(inner.tiles()), Divisor<Index>(across.tiles()),
                                StridedLoop<Index, 2>(box)};
    return Launch({stream, Blocks(count, 1)}, TransposeKernel<T, Index>, tiles, inner, across, source, target);
  });
}

template <typename T>
const char* Overwrite(cudaStream_t stream, const Box& box, const void* from, void* to) {
  const T* const source = static_cast<const T*>(from);
  T* const target = static_cast<T*>(to);
  if (const int across = AcrossOf(box); across >= 0) return Transpose(stream, box, across, source, target);
  return ForEach(stream, box, [=] __device__(int64_t, const Offsets<2>& at) { target[at.of[1]] = source[at.of[0]]; });
}

template <typename T>
const char* Accumulate(cudaStream_t stream, const Box& box, const BoxCopy& copy) {
  const T* const source = static_cast<const T*>(copy.source);
  T* const target = static_cast<T*>(copy.target);
  const PutCombined put = {copy.combine};
  return ForEach(stream, box,
                 [=] __device__(int64_t, const Offsets<2>& at) { put(source[at.of[0]], target[at.of[1]]); });
}

const char* Overwrite(cudaStream_t stream, Box box, const BoxCopy& copy) {
  const LoopDim<2>& inner = box[0];
  if (box.size() == 1 && inner.stride[0] == 1 && inner.stride[1] == 1) {
    if (copy.source == copy.target) return nullptr;
    const size_t num_bytes = static_cast<size_t>(inner.extent) * SizeOf(copy.dtype);
    return ErrorText(cudaMemcpyAsync(copy.target, copy.source, num_bytes, cudaMemcpyDefault, stream));
  }
  const size_t unit = WidenUnit(copy, &box);
  return ByUnit(unit, [&]<typename T>() { return Overwrite<T>(stream, box, copy.source, copy.target); });
}

}  // namespace

const char* Copy(cudaStream_t stream, const BoxCopy& copy) {
  if (copy.extent.size() != copy.source_stride.size() || copy.extent.size() != copy.target_stride.size()) {
    return "a copy's extent and strides have different ranks";
  }
  for (const int64_t extent : copy.extent) {
    if (extent == 0) return nullptr;
  }
  Box box = CopyLoop(copy.extent, copy.source_stride, copy.target_stride);
  if (box.size() > kMaxRank) return "a copy has more than 8 merged dimensions";
  if (box.empty()) box.push_back({1, {1, 1}});
  if (copy.combine == Combine::kOverwrite) return Overwrite(stream, box, copy);
  return ByCombined(copy.dtype, [&]<typename T>() { return Accumulate<T>(stream, box, copy); });
}

const char* CopyRun(cudaStream_t stream, DType dtype, int64_t count, const void* source, void* target,
                    Combine combine) {
  const int64_t extent[] = {count}, stride[] = {1};
  return Copy(stream, {dtype, extent, source, stride, target, stride, combine});
}

const char* CheckKernelImage() {
  cudaFuncAttributes attributes;
  return ErrorText(cudaFuncGetAttributes(&attributes, TransposeKernel<uint32_t, uint32_t>));
}

}  // namespace oneflow::cuda
