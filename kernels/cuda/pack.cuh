// Neighbours that a thread reads and writes at once. Kernels that move more than they compute are as fast as memory
// only if each access is of 16 bytes: eight 16-bit floats or four floats. Values in between are floats.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"

namespace oneflow::cuda {

template <typename T, int kLanes>
struct alignas(kLanes * sizeof(T)) Pack {
  T of[kLanes];
};

// REQUIRES: p is aligned to kLanes elements.
template <int kLanes, typename T>
__device__ void ReadPack(const T* p, float (&to)[kLanes]) {
  const Pack<T, kLanes> pack = *reinterpret_cast<const Pack<T, kLanes>*>(p);
  for (int k = 0; k < kLanes; ++k) to[k] = Widen(pack.of[k]);
}
template <int kLanes, typename T>
__device__ void WritePack(T* p, const float (&from)[kLanes]) {
  Pack<T, kLanes> pack;
  for (int k = 0; k < kLanes; ++k) pack.of[k] = Narrow<T>(from[k]);
  *reinterpret_cast<Pack<T, kLanes>*>(p) = pack;
}

// Elements of a pack of 16 bytes.
template <typename T>
inline constexpr int kPackLanes = 16 / static_cast<int>(sizeof(T));

// Whether all operands of rows of `columns` elements can be read in packs of kLanes: all rows begin at one, also those
// of floats beside them.
template <int kLanes>
bool CanPack(int64_t columns, std::initializer_list<const void*> operands) {
  bool can = columns % kLanes == 0;
  for (const void* p : operands) can = can && reinterpret_cast<uintptr_t>(p) % (kLanes * sizeof(float)) == 0;
  return can;
}

// f.operator()<kLanes>(i, column) for every pack of the elements of rows of c columns: i is its first element.
template <int kLanes, typename Index, typename F>
__global__ void ForPacksKernel(int64_t packs, Divisor<Index> packs_of_row, F f) {
#pragma unroll 1
  for (int64_t pack = FirstIndex(); pack < packs; pack += IndexStride()) {
    const auto [row, at] = packs_of_row.Divide(static_cast<Index>(pack));
    f.template operator()<kLanes>(pack * kLanes, static_cast<int64_t>(at) * kLanes);
  }
}

template <int kLanes, typename F>
const char* LaunchPacks(cudaStream_t stream, int64_t rows, int64_t columns, F f) {
  const int64_t packs = rows * columns / kLanes;
  if (packs == 0) return nullptr;
  return WithIndex(packs, [&](auto index) {
    using Index = decltype(index);
    return Launch({stream, Blocks(packs)}, ForPacksKernel<kLanes, Index, F>, packs, Divisor<Index>(columns / kLanes),
                  f);
  });
}

// The same for elements of type T, in packs of 16 bytes where the operands can be read so, else one by one.
template <typename T, typename F>
const char* ForPacks(cudaStream_t stream, int64_t rows, int64_t columns, std::initializer_list<const void*> operands,
                     F f) {
  if (CanPack<kPackLanes<T>>(columns, operands)) return LaunchPacks<kPackLanes<T>>(stream, rows, columns, f);
  return LaunchPacks<1>(stream, rows, columns, f);
}

}  // namespace oneflow::cuda
