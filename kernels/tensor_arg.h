// An operand of a kernel, a host function or a data source: a local shard in memory. Standard library only, so that
// CUDA sources may include it.
//
// Where the mathematics needs to know which part of the logical tensor a shard is (dropout, an embedding split by
// rows), it reads `start` and `logical_dims`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "oneflow_core/dtype.h"
#include "oneflow_core/memory_layout.h"

namespace oneflow {

// One operand. It is dense and its data are 64-byte aligned. Exceptions: a group of ragged rows is aligned as its rows
// are, and an empty shard may have any pointer. Operands are row-major. If the op's definition allows blocks of
// channels (OpDef::blocks), its CPU kernels take both layouts; operands of one group always have the same. `dims` are
// the tensor's in either layout. CUDA kernels never see blocks, because the pass that makes them is for CPUs alone.
struct TensorArg {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int rank = 0;
  int64_t count = 0;                      // elements of the local shard
  const int64_t* dims = nullptr;          // [rank]
  const int64_t* logical_dims = nullptr;  // [rank]
  const int64_t* start = nullptr;         // [rank]
  MemoryLayout layout = MemoryLayout::kRowMajor;

  bool in_blocks() const { return layout == MemoryLayout::kChannelBlocks; }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// The dimensions in memory order, the innermost last. In blocks: [n,c/16,h,w,16].
inline std::vector<int64_t> DimsInMemory(const TensorArg& x) {
  if (!x.in_blocks()) return {x.dims, x.dims + x.rank};
  return {x.dims[0], x.dims[1] / kBlockChannels, x.dims[2], x.dims[3], kBlockChannels};
}

// The strides of DimsInMemory(), in elements.
inline std::vector<int64_t> Strides(const TensorArg& x) {
  const std::vector<int64_t> dims = DimsInMemory(x);
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

// Product of dims[begin..end).
inline int64_t Product(const TensorArg& x, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= x.dims[i];
  return product;
}
// A tensor seen as rows of its last dimension.
inline int64_t Columns(const TensorArg& x) { return x.rank == 0 ? 1 : x.dims[x.rank - 1]; }
inline int64_t Rows(const TensorArg& x) { return Product(x, 0, x.rank - 1); }

}  // namespace oneflow
