// The processor's tiles (tile.h): AMX. Only this file has AMX instructions. They are written in assembler, because GCC
// 12's intrinsics do not declare the memory that they read, so that it may move or drop stores before them. Assembler
// also needs no -mamx flags.
//
// A process must ask the system for permission before its first tile (kernels/cpu/dispatch.cc does). Each thread loads
// the configuration for itself.
#pragma once

#include <cstdint>

namespace oneflow::cpu {

// The format of ldtilecfg: for each tile the bytes of a row and the number of rows.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, first_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfiguration) == 64);
constexpr TileConfiguration AllOfEightTiles() {
  TileConfiguration all;
  for (int i = 0; i < 8; ++i) {
    all.row_bytes[i] = 64;
    all.rows[i] = 16;
  }
  return all;
}

class HardwareTiles {
 public:
  // While one is open, all tiles of the thread are configured at full size.
  class Scope {
   public:
    Scope() {
      static constexpr TileConfiguration kAll = AllOfEightTiles();
      asm volatile("ldtilecfg %0" : : "m"(kAll) : "memory");
    }
    ~Scope() { asm volatile("tilerelease" : : : "memory"); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };

  template <int kTile>
  static void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "n"(kTile));
  }
  template <int kTile>
  static void Load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "n"(kTile), "r"(from), "r"(stride) : "memory");
  }
  template <int kTile>
  static void Store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "n"(kTile), "r"(to), "r"(stride) : "memory");
  }
  // c += a b
  template <int kSums, int kA, int kB>
  static void Dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "n"(kSums), "n"(kA), "n"(kB));
  }
};

}  // namespace oneflow::cpu
