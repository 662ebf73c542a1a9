// Which segments of a chain backward computes again, so that a step is shortest and fits into memory.
//
//   forward   s0 ─► s1 ─► s2 ─► ... ─► sn      each holds `kept` bytes for backward, or `kept_again` if computed again
//   backward  s0 ◄─ s1 ◄─ s2 ◄─ ... ◄─ sn      a segment that is computed again has both during its own backward
//
// The bytes that a rank has at the backward of segment i are those that all earlier segments hold, its own, and those
// of its gradients. The choice is exact: among partial choices only those are dropped that take no fewer bytes and no
// less time than another (dynamic programming over the Pareto front of held bytes and seconds).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace oneflow {

struct RecomputableSegment {
  int64_t kept = 0;        // bytes held from forward to backward
  int64_t kept_again = 0;  // the same where it is computed again: what that begins with
  int64_t working = 0;     // bytes of gradients during its backward
  double seconds = 0;      // of computing it again
};

// By segment, in the order of forward: whether it is computed again. Nothing if no choice fits into `bytes`.
// The front may have kMostChoices entries; beyond that the choice is the best of those that were kept.
inline constexpr size_t kMostChoices = 1 << 15;
std::optional<std::vector<bool>> ChooseRecomputed(absl::Span<const RecomputableSegment> chain, int64_t bytes);

// The most bytes of such segments that are there at once, and the seconds of computing again.
int64_t PeakBytesOf(absl::Span<const RecomputableSegment> chain, const std::vector<bool>& again);
double SecondsOfAgain(absl::Span<const RecomputableSegment> chain, const std::vector<bool>& again);

}  // namespace oneflow
