// A reference for boxing: cuts logical tensors of floats into shards, runs a step's pieces one by one, and puts shards
// together again, by the definitions of S, B and P and nothing else. Exact when values are small integers.
#pragma once

#include <cstdint>
#include <vector>

#include "sbp/boxing.h"

namespace oneflow::testing {

using Shards = std::vector<std::vector<float>>;  // per index into placement.ranks(), row-major

// Calls visit(coordinates) for every element of the region, row-major.
template <typename Visit>
void ForEachElement(const Region& region, Visit&& visit) {
  if (region.count() == 0) return;
  std::vector<int64_t> at = region.start;
  while (true) {
    visit(at);
    int d = static_cast<int>(at.size()) - 1;
    while (d >= 0 && ++at[d] == region.start[d] + region.extent[d]) at[d] = region.start[d], --d;
    if (d < 0) return;
  }
}

// Position of logical coordinates within the dense shard `region`.
inline int64_t OffsetIn(const Region& region, const std::vector<int64_t>& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset = offset * region.extent[d] + at[d] - region.start[d];
  return offset;
}

inline float Combine(Reduction reduction, float a, float b) {
  if (reduction == Reduction::kSum) return a + b;
  return reduction == Reduction::kMax ? (a > b ? a : b) : (a < b ? a : b);
}

// The coordinates of `index` on the axes of one kind, as one number, and how many such numbers there are.
inline int Flatten(const DistType& dist, int index, Sbp::Kind kind, int* count = nullptr) {
  const std::vector<int> coordinates = dist.placement.Coordinates(index);
  int flat = 0, size = 1;
  for (int a = 0; a < dist.placement.num_axes(); ++a) {
    if (dist.sbp[a].kind() != kind) continue;
    flat = flat * dist.placement.axes()[a].size + coordinates[a];
    size *= dist.placement.axes()[a].size;
  }
  if (count != nullptr) *count = size;
  return flat;
}

inline Reduction ReductionIn(const DistType& dist) {
  for (const Sbp& sbp : dist.sbp) {
    if (sbp.is_partial()) return sbp.reduction();
  }
  return Reduction::kSum;
}

// Cuts `logical`. The addends of a P are arbitrary integers with the right sum; of the candidates of a P(max) or P(min)
// one, which differs from element to element, is the value and the others lose.
inline Shards Scatter(const Shape& shape, const DistType& dist, const std::vector<float>& logical) {
  const Region whole = WholeRegion(shape);
  const Reduction reduction = ReductionIn(dist);
  const auto noise = [](int64_t element, int addend) {
    return static_cast<float>((element * 7919 + addend * 104729 + 13) % 17 - (addend % 2 == 0 ? 3 : 11));
  };
  Shards shards(dist.placement.size());
  for (int i = 0; i < dist.placement.size(); ++i) {
    int num_addends = 1;
    const int addend = Flatten(dist, i, Sbp::Kind::kPartial, &num_addends);
    ForEachElement(ShardRegion(shape, dist, i), [&](const std::vector<int64_t>& at) {
      const int64_t element = OffsetIn(whole, at);
      const int holder = static_cast<int>(element % num_addends);
      float value = logical[element];
      if (reduction == Reduction::kSum) {
        if (addend != holder) value = noise(element, addend);
        for (int k = 0; addend == holder && k < num_addends; ++k) value -= k == holder ? 0 : noise(element, k);
      } else if (addend != holder) {
        value += (reduction == Reduction::kMax ? -1.0f : 1.0f) * static_cast<float>(1 + (element + addend) % 5);
      }
      shards[i].push_back(value);
    });
  }
  return shards;
}

// Puts shards together. InvalidArgument if copies differ or an element is missing from an addend.
inline absl::StatusOr<std::vector<float>> Assemble(const Shape& shape, const DistType& dist, const Shards& shards) {
  const Region whole = WholeRegion(shape);
  const Reduction reduction = ReductionIn(dist);
  int num_copies = 1, num_addends = 1;
  Flatten(dist, 0, Sbp::Kind::kBroadcast, &num_copies);
  Flatten(dist, 0, Sbp::Kind::kPartial, &num_addends);
  std::vector<std::vector<float>> copies(num_copies, std::vector<float>(shape.count(), 0));
  std::vector<std::vector<int>> seen(num_copies, std::vector<int>(shape.count(), 0));
  for (int i = 0; i < dist.placement.size(); ++i) {
    const int copy = Flatten(dist, i, Sbp::Kind::kBroadcast);
    const Region region = ShardRegion(shape, dist, i);
    ForEachElement(region, [&](const std::vector<int64_t>& at) {
      const int64_t element = OffsetIn(whole, at);
      const float value = shards[i][OffsetIn(region, at)];
      float& target = copies[copy][element];
      target = seen[copy][element]++ == 0 ? value : Combine(reduction, target, value);
    });
  }
  for (int copy = 0; copy < num_copies; ++copy) {
    if (copies[copy] != copies[0])
      return absl::InvalidArgumentError(absl::StrCat("copy ", copy, " differs from copy 0"));
    for (int count : seen[copy]) {
      if (count != num_addends) {
        return absl::InvalidArgumentError(absl::StrCat("an element has ", count, " addends, not ", num_addends));
      }
    }
  }
  return copies[0];
}

// Runs a step: zeros, then the pieces in order; the first to cover an element overwrites it, later ones combine.
// InvalidArgument if a piece lies outside its source or its destination.
inline absl::StatusOr<Shards> ApplyBoxing(const Shape& shape, const BoxingStep& step, const Shards& shards) {
  Shards result(step.to.placement.size());
  for (int i = 0; i < step.to.placement.size(); ++i) {
    const Region target = ShardRegion(shape, step.to, i);
    result[i].assign(target.count(), 0);
    std::vector<bool> covered(target.count(), false);
    for (const BoxingPiece& piece : step.pieces[i]) {
      const Region source = ShardRegion(shape, step.from, piece.source);
      if (!(Intersect(piece.region, source) == piece.region) || !(Intersect(piece.region, target) == piece.region)) {
        return absl::InvalidArgumentError(absl::StrCat("destination ", i, ": a piece leaves its shards"));
      }
      ForEachElement(piece.region, [&](const std::vector<int64_t>& at) {
        const int64_t offset = OffsetIn(target, at);
        const float value = shards[piece.source][OffsetIn(source, at)];
        result[i][offset] = covered[offset] ? Combine(step.reduction, result[i][offset], value) : value;
        covered[offset] = true;
      });
    }
  }
  return result;
}

}  // namespace oneflow::testing
