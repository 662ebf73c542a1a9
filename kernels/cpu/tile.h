// Tiles: eight registers of 16 rows of 64 bytes, and products of them, as AMX has them for bf16.
//
//   a     16 rows of 32 bf16                        rows of the left matrix, as they lie
//   b     16 rows of 16 pairs of bf16               row p: terms 2p and 2p + 1 of each of 16 columns, side by side
//   c     16 rows of 16 floats                      c += a b, 32 terms for each of 256 sums
//
// Kernels are written over `Tiles`, which is one of:
//
//   HardwareTiles   the processor's; variant `amx`
//   TwinTiles       the same bits computed with vectors on any processor; variant `amx_twin`, which tests run.
//                   It counts operations, so that a kernel's time can be predicted without tiles.
//
//   const Tiles::Scope scope;                       in each thread, before its first tile; releases them at the end
//   Tiles::Zero<0>();                               or Load
//   for (...) { Tiles::Load<4>(a, stride); Tiles::Load<6>(b, stride); Tiles::Dot<0, 4, 6>(); }
//   Tiles::Store<0>(sums, stride);
//
// Strides are bytes from one row to the next. A row has 64 bytes and may begin anywhere. Do not call libraries while a
// scope is open: they may release tiles.
//
// What Dot computes, for each sum c (found by comparing with the processor over millions of sums):
//
//   e = o = +0;   for each pair p in order:  e = fma(a[2p], b[2p], e);  o = fma(a[2p+1], b[2p+1], o);   c += e + o
//
// Every step rounds to nearest even. Operands and results below 2^-126 become zeros of their sign. Adding 32 terms
// gives other bits than adding 16 terms twice, so the bits depend on where sums are cut.
#pragma once

#include <cstdint>

// The tiles that kernels are compiled for: 0 none, 1 the processor's, 2 the twin (tools/dev/cmake/rooms.cmake).
#ifndef ONEFLOW_TILES
#define ONEFLOW_TILES 0
#endif

#if ONEFLOW_TILES == 1
#include "kernels/cpu/tile_hardware.h"
#elif ONEFLOW_TILES == 2
#include "kernels/cpu/tile_twin.h"
#endif

namespace oneflow::cpu {

inline constexpr int64_t kTileSide = 16;      // rows of any tile, and columns of b and c
inline constexpr int64_t kTileTerms = 32;     // that a product adds to each sum
inline constexpr int64_t kTileRowBytes = 64;  // of any tile
inline constexpr int64_t kTileBytes = kTileSide * kTileRowBytes;

#if ONEFLOW_TILES == 1
inline constexpr bool kHasTiles = true;
using Tiles = HardwareTiles;
#elif ONEFLOW_TILES == 2
inline constexpr bool kHasTiles = true;
using Tiles = TwinTiles;
#else
inline constexpr bool kHasTiles = false;
// The interface of all tiles. Where there are none it has no definitions, and no kernel calls it.
class Tiles {
 public:
  class Scope {};
  template <int kTile>
  static void Zero();
  template <int kTile>
  static void Load(const void* from, int64_t stride);
  template <int kTile>
  static void Store(void* to, int64_t stride);
  template <int kSums, int kA, int kB>
  static void Dot();
};
#endif

}  // namespace oneflow::cpu
