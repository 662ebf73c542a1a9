// Strided box copies: dimensions that lie together in both boxes are merged, then these cases remain:
//
//   one contiguous run                   the driver's copy
//   the source runs along another        32x32 tiles through shared memory, so that both sides use whole lines
//   dimension (a transpose)
//   anything else                        a thread per element, which is 16 bytes where everything is divisible
#include "kernels/cuda/copy.h"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/loops.h"

namespace oneflow::cuda {
namespace {

struct Dim {
  int64_t extent = 1, source = 0, target = 0;
};

// Outermost first. A kernel parameter.
struct Box {
  int rank = 0;
  Dim dims[kMaxRank];

  int64_t count() const {
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= dims[i].extent;
    return count;
  }
  void Remove(int index) {
    for (int i = index; i + 1 < rank; ++i) dims[i] = dims[i + 1];
    --rank;
  }
};

// False if too many dimensions remain.
bool MakeBox(const BoxCopy& copy, Box* box) {
  const std::vector<LoopDim<2>> dims = CopyLoop(copy.extent, copy.source_stride, copy.target_stride);
  if (dims.size() > kMaxRank) return false;
  for (const LoopDim<2>& dim : dims) box->dims[box->rank++] = {dim.extent, dim.stride[0], dim.stride[1]};
  if (box->rank == 0) box->dims[box->rank++] = {1, 1, 1};
  return true;
}

// Bytes of the largest unit, up to 16, in which the box can be copied; its inner dimension is then counted in such
// units.
size_t WidenUnit(const BoxCopy& copy, Box* box) {
  const int64_t size = static_cast<int64_t>(SizeOf(copy.dtype));
  Dim& inner = box->dims[box->rank - 1];
  if (inner.source != 1 || inner.target != 1) return size;
  int64_t all = reinterpret_cast<int64_t>(copy.source) | reinterpret_cast<int64_t>(copy.target) | inner.extent * size;
  for (int i = 0; i + 1 < box->rank; ++i) all |= box->dims[i].source * size | box->dims[i].target * size;
  int64_t unit = 16;
  while (unit > size && all % unit != 0) unit /= 2;
  inner.extent /= unit / size;
  for (int i = 0; i + 1 < box->rank; ++i) {
    box->dims[i].source /= unit / size;
    box->dims[i].target /= unit / size;
  }
  return static_cast<size_t>(unit);
}

struct Offsets {
  int64_t source = 0, target = 0;
};
template <typename Index>
__device__ Offsets OffsetsOf(const Box& box, Index index) {
  Offsets offsets;
  for (int i = box.rank; i-- > 0;) {
    const Index extent = static_cast<Index>(box.dims[i].extent);
    const int64_t at = static_cast<int64_t>(index % extent);
    index /= extent;
    offsets.source += at * box.dims[i].source;
    offsets.target += at * box.dims[i].target;
  }
  return offsets;
}

// Index is 32 bits wide where that suffices: a 64-bit division costs several times as much.
template <typename T, typename Index>
__global__ void CopyKernel(Box box, Index n, const T* source, T* target) {
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) {
    const Offsets at = OffsetsOf(box, static_cast<Index>(i));
    target[at.target] = source[at.source];
  }
}

template <typename T, typename Index>
__global__ void CombineKernel(Box box, Index n, const T* source, T* target, Combine combine) {
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) {
    const Offsets at = OffsetsOf(box, static_cast<Index>(i));
    const T given = source[at.source], held = target[at.target];
    const auto x = Widen(given), y = Widen(held);
    if (combine == Combine::kSum) {
      target[at.target] = Narrow<T>(y + x);
    } else if (x != x || (combine == Combine::kMax ? x > y : x < y)) {  // a NaN wins
      target[at.target] = given;
    }
  }
}

constexpr int kTile = 32;     // a warp's line of a tile
constexpr int kTileRows = 8;  // of threads: each copies 32 / 8 elements of a column
static_assert(kTile * kTileRows == kThreads);

// `inner` runs through the target's memory, `across` through the source's.
template <typename T>
__global__ void TransposeKernel(Box outer, Dim inner, Dim across, int64_t inner_tiles, int64_t across_tiles,
                                int64_t tiles, const T* source, T* target) {
  __shared__ T tile[kTile][kTile + 1];  // one more: a column touches all banks
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  for (int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const int64_t inner_first = number % inner_tiles * kTile;
    const int64_t across_first = number / inner_tiles % across_tiles * kTile;
    const Offsets at = OffsetsOf(outer, number / inner_tiles / across_tiles);
    __syncthreads();  // the last tile is written
    for (int row = y; row < kTile; row += kTileRows) {
      const int64_t i = inner_first + row, a = across_first + x;
      if (i < inner.extent && a < across.extent)
        tile[row][x] = source[at.source + i * inner.source + a * across.source];
    }
    __syncthreads();
    for (int row = y; row < kTile; row += kTileRows) {
      const int64_t i = inner_first + x, a = across_first + row;
      if (i < inner.extent && a < across.extent)
        target[at.target + i * inner.target + a * across.target] = tile[x][row];
    }
  }
}

// The dimension other than the innermost along which the source runs, if tiles pay; else -1.
int AcrossOf(const Box& box) {
  constexpr int64_t kWorthATile = 8;
  const Dim& inner = box.dims[box.rank - 1];
  if (inner.source == 1 || inner.target != 1 || inner.extent < kWorthATile) return -1;
  for (int i = 0; i + 1 < box.rank; ++i) {
    if (box.dims[i].source == 1 && box.dims[i].extent >= kWorthATile) return i;
  }
  return -1;
}

template <typename T>
const char* Overwrite(cudaStream_t stream, Box box, const void* from, void* to) {
  const T* const source = static_cast<const T*>(from);
  T* const target = static_cast<T*>(to);
  const int64_t n = box.count();
  if (const int at = AcrossOf(box); at >= 0) {
    const Dim inner = box.dims[box.rank - 1], across = box.dims[at];
    box.Remove(box.rank - 1);
    box.Remove(at);
    const int64_t inner_tiles = (inner.extent + kTile - 1) / kTile, across_tiles = (across.extent + kTile - 1) / kTile;
    const int64_t tiles = inner_tiles * across_tiles * box.count();
    return Launch({stream, Blocks(tiles, 1)}, TransposeKernel<T>, box, inner, across, inner_tiles, across_tiles, tiles,
                  source, target);
  }
  if (n <= INT32_MAX) {
    return Launch({stream, Blocks(n)}, CopyKernel<T, uint32_t>, box, static_cast<uint32_t>(n), source, target);
  }
  return Launch({stream, Blocks(n)}, CopyKernel<T, int64_t>, box, n, source, target);
}

template <typename T>
const char* Accumulate(cudaStream_t stream, const Box& box, const BoxCopy& copy) {
  const T* const source = static_cast<const T*>(copy.source);
  T* const target = static_cast<T*>(copy.target);
  const int64_t n = box.count();
  if (n <= INT32_MAX) {
    return Launch({stream, Blocks(n)}, CombineKernel<T, uint32_t>, box, static_cast<uint32_t>(n), source, target,
                  copy.combine);
  }
  return Launch({stream, Blocks(n)}, CombineKernel<T, int64_t>, box, n, source, target, copy.combine);
}

const char* Overwrite(cudaStream_t stream, Box box, const BoxCopy& copy) {
  const Dim& inner = box.dims[0];
  if (box.rank == 1 && inner.source == 1 && inner.target == 1) {
    if (copy.source == copy.target) return nullptr;
    const size_t num_bytes = static_cast<size_t>(inner.extent) * SizeOf(copy.dtype);
    return ErrorText(cudaMemcpyAsync(copy.target, copy.source, num_bytes, cudaMemcpyDefault, stream));
  }
  switch (WidenUnit(copy, &box)) {
    case 1:
      return Overwrite<uint8_t>(stream, box, copy.source, copy.target);
    case 2:
      return Overwrite<uint16_t>(stream, box, copy.source, copy.target);
    case 4:
      return Overwrite<uint32_t>(stream, box, copy.source, copy.target);
    case 8:
      return Overwrite<uint64_t>(stream, box, copy.source, copy.target);
    default:
      return Overwrite<uint4>(stream, box, copy.source, copy.target);
  }
}

}  // namespace

const char* Copy(cudaStream_t stream, const BoxCopy& copy) {
  if (copy.extent.size() != copy.source_stride.size() || copy.extent.size() != copy.target_stride.size()) {
    return "a copy's extent and strides have different ranks";
  }
  for (const int64_t extent : copy.extent) {
    if (extent == 0) return nullptr;
  }
  Box box;
  if (!MakeBox(copy, &box)) return "a copy has more than 8 merged dimensions";
  if (copy.combine == Combine::kOverwrite) return Overwrite(stream, box, copy);
  switch (copy.dtype) {
    case DType::kFloat32:
      return Accumulate<float>(stream, box, copy);
    case DType::kBFloat16:
      return Accumulate<BFloat16>(stream, box, copy);
    case DType::kFloat16:
      return Accumulate<Float16>(stream, box, copy);
    case DType::kInt32:
      return Accumulate<int32_t>(stream, box, copy);
    case DType::kInt64:
      return Accumulate<int64_t>(stream, box, copy);
    case DType::kUInt8:
      return Accumulate<uint8_t>(stream, box, copy);
    case DType::kBool:
      break;
  }
  return "bool cannot be reduced";
}

const char* CopyRun(cudaStream_t stream, DType dtype, int64_t count, const void* source, void* target,
                    Combine combine) {
  const int64_t extent[] = {count}, stride[] = {1};
  return Copy(stream, {dtype, extent, source, stride, target, stride, combine});
}

const char* CheckKernelImage() {
  cudaFuncAttributes attributes;
  return ErrorText(cudaFuncGetAttributes(&attributes, CopyKernel<uint32_t, uint32_t>));
}

}  // namespace oneflow::cuda
