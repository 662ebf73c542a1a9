// Packs row-major matrices of bf16 into tiles (tile.h). Incomplete tiles are filled with zeros.
//
//   WeaveTile        terms are rows:      b tile from 32 rows of 16 columns      to[p][c] = from[2p][c], from[2p+1][c]
//   WeaveColumns     terms are columns:   b tile from 16 rows of 32 columns      to[p][c] = from[c][2p], from[c][2p+1]
//   TransposeTile    terms are rows:      a tile from 32 rows of 16 columns      to[c][r] = from[r][c]
//
// Each writes 1 KiB in whole cache lines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/half.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

// Interleaves two rows of bf16 as pairs, the first row in the lower halves.
OF_INLINE U32s PairsOf(U16s first, U16s second) {
  return __builtin_convertvector(first, U32s) | __builtin_convertvector(second, U32s) << 16;
}
OF_INLINE U16s BitsAt(const BFloat16* p) { return *reinterpret_cast<const U16sUnaligned*>(p); }

// A copy of an incomplete tile, padded with zeros.
template <int64_t kRows, int64_t kColumns>
struct PaddedTile {
  PaddedTile(const BFloat16* from, int64_t stride, int64_t rows, int64_t columns) : data{} {
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(data + i * kColumns, from + i * stride, static_cast<size_t>(columns) * sizeof(BFloat16));
    }
  }
  alignas(64) BFloat16 data[kRows * kColumns];
};

// Transposes a tile's dwords [16][16] in place.
OF_INLINE void TransposeDwords(const char* from, int64_t stride, uint32_t* to) {
  if constexpr (kLanes == kTileSide) {
    F32s tile[kLanes];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kLanes; ++i) tile[i] = Load(reinterpret_cast<const float*>(from + i * stride));
    Transpose(tile);
#pragma GCC unroll 16
    for (int64_t i = 0; i < kLanes; ++i) Store(reinterpret_cast<float*>(to + i * kTileSide), tile[i]);
  } else {
    uint32_t tile[kTileSide][kTileSide];
    for (int64_t i = 0; i < kTileSide; ++i) std::memcpy(tile[i], from + i * stride, sizeof(tile[i]));
    for (int64_t i = 0; i < kTileSide; ++i) {
      for (int64_t j = 0; j < kTileSide; ++j) to[i * kTileSide + j] = tile[j][i];
    }
  }
}

OF_INLINE void WeaveWholeTile(const BFloat16* from, int64_t stride, uint32_t* to) {
  for (int64_t p = 0; p < kTileSide; ++p, from += 2 * stride) {
    for (int64_t c = 0; c < kTileSide; c += kLanes) {
      Store(reinterpret_cast<float*>(to + p * kTileSide + c),
            (F32s)PairsOf(BitsAt(from + c), BitsAt(from + stride + c)));
    }
  }
}

inline void WeaveTile(const BFloat16* from, int64_t stride, int64_t rows, int64_t columns, uint32_t* to) {
  if (rows >= kTileTerms && columns >= kTileSide) return WeaveWholeTile(from, stride, to);
  const PaddedTile<kTileTerms, kTileSide> padded(from, stride, std::min(rows, kTileTerms),
                                                 std::min(columns, kTileSide));
  WeaveWholeTile(padded.data, kTileSide, to);
}

inline void WeaveColumns(const BFloat16* from, int64_t stride, int64_t rows, int64_t columns, uint32_t* to) {
  if (rows >= kTileSide && columns >= kTileTerms) {
    return TransposeDwords(reinterpret_cast<const char*>(from), stride * static_cast<int64_t>(sizeof(BFloat16)), to);
  }
  const PaddedTile<kTileSide, kTileTerms> padded(from, stride, std::min(rows, kTileSide),
                                                 std::min(columns, kTileTerms));
  TransposeDwords(reinterpret_cast<const char*>(padded.data), kTileRowBytes, to);
}

// Interleaved, then transposed by pairs.
inline void TransposeTile(const BFloat16* from, int64_t stride, int64_t rows, int64_t columns, uint32_t* to) {
  alignas(64) uint32_t woven[kTileSide * kTileSide];
  WeaveTile(from, stride, rows, columns, woven);
  TransposeDwords(reinterpret_cast<const char*>(woven), kTileRowBytes, to);
}

}  // namespace oneflow::cpu
