// How a weight lies that was packed for the products that read it: in panels of columns, pairs of rows side by side.
//
//   w[k, n]  ->  packed[n / 64, k / 2, 64, 2],    w(i, j) at packed(j / 64, i / 2, j % 64, i % 2)
//
// Dot products of pairs, as AVX-512 and AMX have them for bf16, read it from front to back. To the compiler it is a
// tensor like any other: a split of k is one of dimension 1, a split of n one of dimension 0, if whole panels are cut.
#pragma once

#include <cstdint>

#include "oneflow_core/shape.h"

namespace oneflow {

inline constexpr int64_t kPanelColumns = 64, kPanelRows = 32, kPairedRows = 2;

// Whether a [k, n] weight can be packed.
inline bool HasWholePanels(int64_t k, int64_t n) { return k % kPanelRows == 0 && n % kPanelColumns == 0; }

// REQUIRES: HasWholePanels(k, n).
inline Shape PackedShape(int64_t k, int64_t n) {
  return {n / kPanelColumns, k / kPairedRows, kPanelColumns, kPairedRows};
}

}  // namespace oneflow
