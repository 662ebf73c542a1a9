// A product packs op(a) in tiles of kTileRows rows and op(b) in tiles of kTileColumns columns, and sums one tile of d
// at a time, over k from first to last:
//
//   op(a), a tile:  k x kTileRows, rows innermost     op(b):  tiles of k x kTileColumns      both filled up with zeros
//
// The sums of a tile pass through the workspace, where the preference allows one, so that memory which is not the
// caller's own is noticed.
#include "test/support/cuda/cublaslt_product.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include "test/support/cuda/memory.h"
#include "test/support/cuda/software_device.h"
#include "test/support/cuda/system.h"

namespace oneflow::software_cuda::cublaslt {
namespace {

size_t NumBytes(const cublasLtMatrixLayoutOpaque_t& x) {
  return ((x.columns - 1) * x.ld + x.rows + (x.batch - 1) * x.stride) * ElementBytes(x.type);
}

bool CheckMemory(const Work& w) {
  std::vector<Operand> operands = {
      {"a", w.a, NumBytes(w.p.a), false}, {"b", w.b, NumBytes(w.p.b), false}, {"d", w.d, NumBytes(w.p.d), true}};
  if (w.beta != 0 && w.c != w.d) operands.push_back({"c", w.c, NumBytes(w.p.c), false});
  if (w.workspace != nullptr) operands.push_back({"workspace", w.workspace, kWorkspaceBytes, true});
  return CheckOperands(operands);
}

struct BFloat16 {
  uint16_t bits;
};

float Value(float x) { return x; }
float Value(_Float16 x) { return static_cast<float>(x); }
float Value(BFloat16 x) {
  const uint32_t bits = uint32_t{x.bits} << 16;
  float y;
  std::memcpy(&y, &bits, sizeof(y));
  return y;
}
void Put(float x, float* y) { *y = x; }
void Put(float x, _Float16* y) { *y = static_cast<_Float16>(x); }
void Put(float x, BFloat16* y) {  // to nearest even
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  y->bits = static_cast<uint16_t>(x != x ? (bits >> 16) | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A tile of `count` rows of a [rows, k] matrix, or columns of a [k, columns] matrix, as [k][width]; `step` is from one
// to the next, `k_step` along k.
template <typename T>
void Pack(const T* from, int64_t count, int64_t step, int64_t k, int64_t k_step, int64_t width, float* to) {
  for (int64_t p = 0; p < k; ++p, from += k_step, to += width) {
    for (int64_t i = 0; i < width; ++i) to[i] = i < count ? Value(from[i * step]) : 0;
  }
}

void RoundAll(std::vector<float>& values) {
  for (float& x : values) x = RoundToTf32(x);
}

// sums[column][row] of one tile.
void Multiply(const float* a, const float* b, int64_t k, float (&result)[kTileColumns][kTileRows]) {
  float sums[kTileColumns][kTileRows] = {};
  for (int64_t p = 0; p < k; ++p, a += kTileRows, b += kTileColumns) {
    for (int64_t j = 0; j < kTileColumns; ++j) {
      const float factor = b[j];
      for (int64_t i = 0; i < kTileRows; ++i) sums[j][i] += a[i] * factor;
    }
  }
  std::memcpy(result, sums, sizeof(sums));
}

// The tile of d at `row`, `column`.
template <typename T>
void Store(const Work& w, const float* sums, int64_t row, int64_t column, const T* c, T* d) {
  const int64_t rows = std::min(kTileRows, w.p.m - row), columns = std::min(kTileColumns, w.p.n - column);
  for (int64_t j = 0; j < columns; ++j) {
    const T* const c_column = c + (column + j) * w.p.c.ld + row;
    T* const d_column = d + (column + j) * w.p.d.ld + row;
    for (int64_t i = 0; i < rows; ++i) {
      const float sum = w.alpha * sums[j * kTileRows + i];
      Put(w.beta == 0 ? sum : sum + w.beta * Value(c_column[i]), d_column + i);
    }
  }
}

// One product of the batch.
template <typename T, typename Out>
void RunOne(const Work& w, const T* a, const T* b, const Out* c, Out* d) {
  const auto [m, n, k] = std::tuple(w.p.m, w.p.n, w.p.k);
  const int64_t a_step = w.p.transpose_a ? w.p.a.ld : 1, a_k_step = w.p.transpose_a ? 1 : w.p.a.ld;
  const int64_t b_step = w.p.transpose_b ? 1 : w.p.b.ld, b_k_step = w.p.transpose_b ? w.p.b.ld : 1;
  std::vector<float> a_tile(k * kTileRows), b_tiles((n + kTileColumns - 1) / kTileColumns * kTileColumns * k);
  for (int64_t j = 0; j < n; j += kTileColumns) {
    Pack(b + j * b_step, std::min(kTileColumns, n - j), b_step, k, b_k_step, kTileColumns, b_tiles.data() + j * k);
  }
  if (w.p.tf32) RoundAll(b_tiles);
  for (int64_t i = 0; i < m; i += kTileRows) {
    Pack(a + i * a_step, std::min(kTileRows, m - i), a_step, k, a_k_step, kTileRows, a_tile.data());
    if (w.p.tf32) RoundAll(a_tile);
    for (int64_t j = 0; j < n; j += kTileColumns) {
      float sums[kTileColumns][kTileRows];
      Multiply(a_tile.data(), b_tiles.data() + j * k, k, sums);
      if (w.workspace != nullptr) std::memcpy(w.workspace, sums, kWorkspaceBytes);
      Store(w, w.workspace != nullptr ? w.workspace : &sums[0][0], i, j, c, d);
    }
  }
}

template <typename T, typename Out>
void RunAll(const Work& w) {
  for (int64_t i = 0; i < w.p.batch; ++i) {
    Out* const d = static_cast<Out*>(w.d) + i * w.p.d.stride;
    RunOne(w, static_cast<const T*>(w.a) + i * w.p.a.stride, static_cast<const T*>(w.b) + i * w.p.b.stride,
           w.beta == 0 ? d : static_cast<const Out*>(w.c) + i * w.p.c.stride, d);
  }
}

template <typename T>
void RunAs(const Work& w) {
  w.p.d.type == CUDA_R_32F ? RunAll<T, float>(w) : RunAll<T, T>(w);
}

}  // namespace

void Run(const Work& w) {
  if (!CheckMemory(w)) return;
  System::Get().TakeTimeOfProduct(w.algorithm);
  w.p.a.type == CUDA_R_16BF ? RunAs<BFloat16>(w) : w.p.a.type == CUDA_R_16F ? RunAs<_Float16>(w) : RunAs<float>(w);
}

}  // namespace oneflow::software_cuda::cublaslt
