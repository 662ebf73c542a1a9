// A product of cuBLASLt on a device in software: what is asked for, and the work on the stream.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

// Column-major: a column's elements lie side by side, columns `ld` elements apart, matrices of a batch `stride`.
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t ld;
  int32_t batch = 1;
  int64_t stride = 0;
};

namespace oneflow::software_cuda::cublaslt {

// The workspace of an algorithm that is allowed one: the sums of a tile.
inline constexpr int64_t kTileRows = 32;  // a multiple of a vector's elements, known to the compiler
inline constexpr int64_t kTileColumns = 2;
inline constexpr size_t kWorkspaceBytes = kTileRows * kTileColumns * sizeof(float);

// 0: of no type that this device multiplies.
inline size_t ElementBytes(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF || type == CUDA_R_16F ? 2 : 0;
}

// What the descriptors say of a product. No pointers, so that it can be compared with what an algorithm was made for.
struct Problem {
  bool transpose_a, transpose_b, tf32;
  int64_t m, n, k, batch;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
};

struct Work {
  Problem p;
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
  float* workspace;  // null: none
  int algorithm = 0;
};

// Checks the operands' memory, takes the time that tests say the algorithm takes, and multiplies.
void Run(const Work& w);

}  // namespace oneflow::software_cuda::cublaslt
