#include "kernels/random_fill.h"

#include <algorithm>

#include "kernels/cpu/normals.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/philox.h"

namespace oneflow {
namespace cpu {
namespace {

// Calls body(bits, i, skip, count) for pieces of [0, n): `count` elements from i on, which are those behind the first
// `skip` of a group whose bits these are, kWords of them each.
template <int kWords, typename Body>
void ForEachGroup(uint64_t key, uint64_t first, int64_t n, const Body& body) {
  constexpr int64_t kGroup = kPhiloxGroup / kWords;
  ParallelFor((n + kGroup - 1) / kGroup + 1, Grain(16 * kGroup * sizeof(float)), [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t bits[kPhiloxGroup];
    const int64_t lead = static_cast<int64_t>(first % kGroup);  // groups begin at multiples of their size
    for (int64_t group = begin; group < end; ++group) {
      const int64_t at = group * kGroup - lead;
      const int64_t skip = std::max<int64_t>(0, -at), stop = std::min(kGroup, n - at);
      if (skip >= stop) continue;
      GroupBits(key, 0, (first + at) * kWords, bits);
      body(bits, at + skip, skip, stop - skip);
    }
  });
}

}  // namespace
}  // namespace cpu

void FillNormal(uint64_t key, uint64_t first, int64_t n, float deviation, float* out) {
  cpu::ForEachGroup<2>(key, first, n, [&](const uint32_t* bits, int64_t i, int64_t skip, int64_t count) {
    constexpr int64_t kNormals = cpu::kPhiloxGroup / 2;
    float values[kNormals];
    for (int64_t at = 0; at < kNormals; at += cpu::kLanes) {
      cpu::Store(values + at, cpu::Normals(bits + 2 * at) * deviation);
    }
    std::memcpy(out + i, values + skip, count * sizeof(float));
  });
}

void FillUniform(uint64_t key, uint64_t first, int64_t n, float bound, float* out) {
  cpu::ForEachGroup<1>(key, first, n, [&](const uint32_t* bits, int64_t i, int64_t skip, int64_t count) {
    float values[cpu::kPhiloxGroup];
    for (int64_t at = 0; at < cpu::kPhiloxGroup; at += cpu::kLanes) {
      cpu::U32s draw;
      std::memcpy(&draw, bits + at, sizeof(draw));
      cpu::Store(values + at, (cpu::ToUniform(draw) * 2.0f - 1.0f) * bound);
    }
    std::memcpy(out + i, values + skip, count * sizeof(float));
  });
}

}  // namespace oneflow
