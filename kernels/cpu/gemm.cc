#include "kernels/cpu/gemm.h"

#include <algorithm>

#include "glog/logging.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"
#include "oneapi/dnnl/dnnl.h"

namespace oneflow::cpu {
namespace {

// Elements from a row to the next.
int64_t RowOf(int64_t given, int64_t dense) { return given == 0 ? dense : given; }

// One call of the library: rows [i, i + m) and columns [j, j + n) of c.
const char* Block(const ProductShape& s, const float* a, const float* b, float* c, int64_t i, int64_t m, int64_t j,
                  int64_t n) {
  const int64_t row_a = RowOf(s.row_a, s.transpose_a ? s.m : s.k), row_b = RowOf(s.row_b, s.transpose_b ? s.k : s.n),
                row_c = RowOf(s.row_c, s.n);
  const dnnl_status_t status = dnnl_sgemm(
      s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', m, n, s.k, 1.0f, a + i * (s.transpose_a ? 1 : row_a), row_a,
      b + j * (s.transpose_b ? row_b : 1), row_b, s.accumulate ? 1.0f : 0.0f, c + i * row_c + j, row_c);
  return status == dnnl_success ? nullptr : "dnnl_sgemm failed";
}

// Rows or columns that are worth a call of their own.
constexpr int64_t kLeastOfPart = 256;

// Each thread has columns of c, or rows where there are many more of these.
const char* InParts(const ProductShape& s, const float* a, const float* b, float* c) {
  constexpr int64_t kUnit = 16;  // a cache line
  const bool of_columns = 2 * s.n >= s.m;
  const int64_t size = of_columns ? s.n : s.m;
  // Written by any thread that fails; all would say the same.
  const char* error = nullptr;
  ParallelFor((size + kUnit - 1) / kUnit, kLeastOfPart / kUnit, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kUnit, count = std::min(end * kUnit, size) - first;
    const char* const failed =
        of_columns ? Block(s, a, b, c, 0, s.m, first, count) : Block(s, a, b, c, first, count, 0, s.n);
    if (failed != nullptr) {
#pragma omp atomic write
      error = failed;
    }
  });
  return error;
}

// row(i, c's row i) for all i; each reads and writes `tensors` rows like it.
template <typename Row>
void ForRows(const ProductShape& s, float* c, int64_t tensors, Row&& row) {
  const int64_t row_c = RowOf(s.row_c, s.n);
  ParallelFor(s.m, Grain(tensors * s.n * static_cast<int64_t>(sizeof(float))), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) row(i, c + i * row_c);
  });
}

// Each thread has a part of k, so rows of a and b; c is the first part's, those of others are in the workspace until
// they are added in order.
const char* InPartsOfRows(const ProductShape& s, const float* a, const float* b, float* c, float* workspace) {
  const int64_t row_a = RowOf(s.row_a, s.m), row_b = RowOf(s.row_b, s.n), sums = s.m * s.n;
  // Written by any thread that fails; all would say the same.
  const char* error = nullptr;
  ParallelFor(s.parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = s.k * part / s.parts;
      ProductShape of_part = s;
      of_part.k = s.k * (part + 1) / s.parts - first;
      if (part > 0) {
        of_part.accumulate = false;
        of_part.row_c = s.n;
      }
      float* const to = part == 0 ? c : workspace + (part - 1) * sums;
      if (const char* failed = Block(of_part, a + first * row_a, b + first * row_b, to, 0, s.m, 0, s.n)) {
#pragma omp atomic write
        error = failed;
      }
    }
  });
  if (error != nullptr) return error;
  ForRows(s, c, s.parts + 1, [&](int64_t i, float* row) {
    VecLoop(s.n, [&](int64_t j, auto lanes) {
      F32s sum = Load(row + j, lanes);
      for (int64_t part = 1; part < s.parts; ++part) {
        sum += Load(workspace + (part - 1) * sums + i * s.n + j, lanes);
      }
      Store(row + j, sum, lanes);
    });
  });
  return nullptr;
}

const char* Multiply(const ProductShape& s, const float* a, const float* b, float* c, float* workspace) {
  if (s.k == 0) {  // an empty sum; leading dimensions of zero are an error to sgemm
    if (!s.accumulate) ForRows(s, c, 1, [&](int64_t, float* row) { std::fill(row, row + s.n, 0.0f); });
    return nullptr;
  }
  if (workspace != nullptr && s.parts > 1) return InPartsOfRows(s, a, b, c, workspace);
  // A b that lies transposed the library divides badly among its threads (kernels/NOTES.md).
  const bool has_parts = std::max(s.m, s.n) >= kLeastOfPart * NumThreads();
  return s.transpose_b && !s.transpose_a && has_parts ? InParts(s, a, b, c) : Block(s, a, b, c, 0, s.m, 0, s.n);
}

}  // namespace

int64_t PartsOfRows(const ProductShape& s, int threads) {
  constexpr int64_t kMostSums = 128 << 10, kLeastRows = 512;
  const bool suits = s.transpose_a && !s.transpose_b && s.batch == 1 && s.m * s.n <= kMostSums;
  return suits ? std::clamp<int64_t>(s.k / kLeastRows, 1, std::max(threads, 1)) : 1;
}

int64_t GemmWorkspace(const ProductShape& s) { return SuitsPanels(s) ? s.n * s.k : (s.parts - 1) * s.m * s.n; }

const char* Gemm(const ProductShape& s, const float* a, const float* b, float* c, float* workspace, const float* bias) {
  CHECK(bias == nullptr || !s.accumulate);
  if (s.m == 0 || s.n == 0) return nullptr;
  if (workspace != nullptr && SuitsPanels(s)) {
    GemmByPanels(s, a, b, bias, c, workspace);
    return nullptr;
  }
  if (const char* error = Multiply(s, a, b, c, workspace)) return error;
  if (bias == nullptr) return nullptr;
  ForRows(s, c, 2, [&](int64_t, float* row) {
    VecLoop(s.n, [&](int64_t j, auto lanes) { Store(row + j, Load(row + j, lanes) + Load(bias + j, lanes), lanes); });
  });
  return nullptr;
}

}  // namespace oneflow::cpu
