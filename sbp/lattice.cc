#include "sbp/lattice.h"

#include <algorithm>

namespace oneflow {
namespace {

// Whether along an axis, each of whose coordinates has `block` ranks, every block is the one before it moved by a
// stride.
bool Repeats(const int* ranks, int size, int block) {
  const int stride = ranks[block] - ranks[0], count = size * block;
  int differences = 0;
  for (int i = block; i < count; ++i) differences |= (ranks[i] - ranks[i - block]) ^ stride;
  return differences == 0;
}

}  // namespace

int64_t Count(const CoordinateBox& box) {
  int64_t count = 1;
  for (const auto& [first, end] : box) count *= std::max(0, end - first);
  return count;
}

std::optional<Lattice> Lattice::Of(const Placement& placement) {
  Lattice lattice;
  const int* const ranks = placement.ranks().data();
  lattice.base_ = ranks[0];
  lattice.num_axes_ = placement.num_axes();
  int block = 1;
  for (int a = placement.num_axes() - 1; a >= 0; --a) {
    const int size = placement.axes()[a].size;
    if (size == 1) continue;
    if (!Repeats(ranks, size, block)) return std::nullopt;
    lattice.digits_.push_back({a, size, ranks[block] - ranks[0]});
    block *= size;
  }
  std::sort(lattice.digits_.begin(), lattice.digits_.end(),
            [](const Digit& x, const Digit& y) { return x.stride > y.stride; });
  int64_t span = 0, points = 1;
  for (size_t i = lattice.digits_.size(); i-- > 0;) {
    Digit& digit = lattice.digits_[i];
    if (digit.stride <= span) return std::nullopt;
    digit.block = points;
    points *= digit.size;
    span += int64_t{digit.stride} * (digit.size - 1);
  }
  return lattice;
}

int64_t Lattice::CountBelow(int rank) const {
  int64_t left = int64_t{rank} - base_, count = 0;
  for (const Digit& digit : digits_) {
    if (left <= 0) return count;
    const int64_t whole = left / digit.stride;
    if (whole >= digit.size) return count + digit.size * digit.block;
    count += whole * digit.block;
    left -= whole * digit.stride;
  }
  return count + (left > 0 ? 1 : 0);
}

// In the order of ranks the coordinates are counted with the largest stride first. Those from `first` up to `end` are a
// box if they agree on some digits, have a range of the next, and all of the rest.
std::optional<CoordinateBox> Lattice::Within(std::pair<int, int> ranks) const {
  const int64_t first = CountBelow(ranks.first), end = CountBelow(ranks.second);
  CoordinateBox box(num_axes_, {0, 1});
  if (first >= end) {
    for (auto& range : box) range = {0, 0};
    if (box.empty()) box.push_back({0, 0});
    return box;
  }
  bool whole = false;
  for (const Digit& digit : digits_) {
    auto& [from, to] = box[digit.axis];
    if (whole) {
      from = 0, to = digit.size;
      continue;
    }
    from = static_cast<int>(first / digit.block % digit.size);
    to = static_cast<int>((end - 1) / digit.block % digit.size) + 1;
    whole = to - from > 1 || end - first == digit.block;
    if (whole && end - first != (to - from) * digit.block) return std::nullopt;
  }
  return box;
}

}  // namespace oneflow
