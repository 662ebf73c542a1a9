// Tiles in memory (tile.h). They compute the same bits as the processor's.
//
// Tiles hold NaNs when a scope opens, so that a kernel that reads a tile before loading it gives NaN. About 30 GF/s
// with AVX-512.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/variant.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

class TwinTiles {
 public:
  class Scope {
   public:
    Scope() { std::memset(Mine().tiles, 0xff, sizeof(State::tiles)); }
    // Adds this thread's counts to those of all threads.
    ~Scope() {
      State& mine = Mine();
      Total().loads += mine.loads;
      Total().dots += mine.dots;
      Total().stores += mine.stores;
      mine.loads = mine.dots = mine.stores = 0;
      std::memset(mine.tiles, 0xff, sizeof(State::tiles));
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };

  // The operations of all closed scopes since the last call.
  static TileCounts TakeCounts() {
    return {Total().loads.exchange(0), Total().dots.exchange(0), Total().stores.exchange(0)};
  }

  template <int kTile>
  static void Zero() {
    std::memset(Mine().tiles[kTile], 0, kBytes);
  }
  template <int kTile>
  static void Load(const void* from, int64_t stride) {
    State& mine = Mine();
    ++mine.loads;
    for (int row = 0; row < kRows; ++row) {
      std::memcpy(mine.tiles[kTile] + row * kRowWords, static_cast<const char*>(from) + row * stride, kRowBytes);
    }
  }
  template <int kTile>
  static void Store(void* to, int64_t stride) {
    State& mine = Mine();
    ++mine.stores;
    for (int row = 0; row < kRows; ++row) {
      std::memcpy(static_cast<char*>(to) + row * stride, mine.tiles[kTile] + row * kRowWords, kRowBytes);
    }
  }
  template <int kSums, int kA, int kB>
  static void Dot() {
    static_assert(kSums != kA && kSums != kB && kA != kB);
    State& mine = Mine();
    ++mine.dots;
    DotOf(mine.tiles[kSums], mine.tiles[kA], mine.tiles[kB]);
  }

 private:
  static constexpr int kRows = 16, kRowBytes = 64, kRowWords = 16, kBytes = kRows * kRowBytes;
  struct State {
    alignas(64) uint32_t tiles[8][kRows * kRowWords];
    int64_t loads = 0, dots = 0, stores = 0;
  };
  struct AllCounts {
    std::atomic<int64_t> loads{0}, dots{0}, stores{0};
  };
  static State& Mine() {
    static thread_local State mine;
    return mine;
  }
  static AllCounts& Total() {
    static AllCounts total;
    return total;
  }

  // While one is open, this thread's floats behave as in tiles: they round to nearest even, and numbers below 2^-126
  // become zeros. The compiler moves no memory access across its ends.
  class FloatsOfTiles {
   public:
    FloatsOfTiles() {
#ifdef __x86_64__
      constexpr uint32_t kAsTiles = 0x9fc0;
      asm volatile("stmxcsr %0" : "=m"(before_) : : "memory");
      asm volatile("ldmxcsr %0" : : "m"(kAsTiles) : "memory");
#endif
    }
    ~FloatsOfTiles() {
#ifdef __x86_64__
      asm volatile("ldmxcsr %0" : : "m"(before_) : "memory");
#endif
    }
    FloatsOfTiles(const FloatsOfTiles&) = delete;
    FloatsOfTiles& operator=(const FloatsOfTiles&) = delete;

   private:
    uint32_t before_ = 0;
  };

  // x y + sum, rounded once.
  static OF_INLINE F32s Fused(F32s x, F32s y, F32s sum) {
#if defined(__AVX512F__)
    return (F32s)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)sum);
#elif defined(__FMA__)
    return (F32s)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)sum);
#else
    for (int i = 0; i < kLanes; ++i) sum[i] = std::fma(x[i], y[i], sum[i]);
    return sum;
#endif
  }

  static __attribute__((noinline)) void DotOf(uint32_t* c, const uint32_t* a, const uint32_t* b) {
    // The memory is opaque to the compiler, which could otherwise read it before the mode changes.
    asm volatile("" : "+r"(c), "+r"(a), "+r"(b));
    const FloatsOfTiles floats;
    float* const sums = reinterpret_cast<float*>(c);
    for (int row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < kRowWords; column += kLanes) {
        F32s even = Splat(0), odd = Splat(0);
        for (int pair = 0; pair < kRows; ++pair) {
          const U32s x = U32s{} + a[row * kRowWords + pair];
          const U32s y = (U32s)Load32(b + pair * kRowWords + column);
          even = Fused((F32s)(x << 16), (F32s)(y << 16), even);
          odd = Fused((F32s)(x & 0xffff0000u), (F32s)(y & 0xffff0000u), odd);
        }
        float* const to = sums + row * kRowWords + column;
        cpu::Store(to, cpu::Load(to) + (even + odd));
      }
    }
  }
  static OF_INLINE F32s Load32(const uint32_t* p) { return cpu::Load(reinterpret_cast<const float*>(p)); }
};

}  // namespace oneflow::cpu
