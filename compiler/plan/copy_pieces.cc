#include "compiler/plan/copy_pieces.h"

namespace oneflow {
namespace {

int64_t OffsetIn(const Region& shard, const std::vector<int64_t>& strides, const std::vector<int64_t>& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += (at[d] - shard.start[d]) * strides[d];
  return offset;
}

// `box` less `hole` as at most two boxes per dimension. REQUIRES: hole lies within box.
std::vector<Region> Subtract(Region box, const Region& hole) {
  std::vector<Region> rest;
  for (size_t d = 0; d < box.start.size(); ++d) {
    const int64_t box_end = box.start[d] + box.extent[d], hole_end = hole.start[d] + hole.extent[d];
    const auto cut = [&](int64_t start, int64_t end) {
      if (start == end) return;
      Region part = box;
      part.start[d] = start;
      part.extent[d] = end - start;
      rest.push_back(std::move(part));
    };
    cut(box.start[d], hole.start[d]);
    cut(hole_end, box_end);
    box.start[d] = hole.start[d];
    box.extent[d] = hole.extent[d];
  }
  return rest;
}

// The parts of `box` outside and inside of the disjoint boxes `covered`.
struct Parts {
  std::vector<Region> fresh;
  std::vector<Region> seen;
};

Parts Divide(const Region& box, const std::vector<Region>& covered) {
  Parts parts{{box}, {}};
  for (const Region& other : covered) {
    std::vector<Region> still_fresh;
    for (const Region& part : parts.fresh) {
      const Region common = Intersect(part, other);
      if (common.count() == 0) {
        still_fresh.push_back(part);
        continue;
      }
      parts.seen.push_back(common);
      for (Region& rest : Subtract(part, common)) still_fresh.push_back(std::move(rest));
    }
    parts.fresh = std::move(still_fresh);
  }
  if (parts.fresh.empty()) parts.seen = {box};  // covered entirely: one copy, however many boxes cover it
  return parts;
}

}  // namespace

CopyProgram CopiesFor(const Shape& shape, const BoxingStep& step, int index) {
  const Region target = ShardRegion(shape, step.to, index);
  const std::vector<int64_t> target_stride = Shape(target.extent).Strides();
  CopyProgram program;
  std::vector<Region> covered;
  int64_t num_covered = 0;
  for (const BoxingPiece& piece : step.pieces[index]) {
    if (piece.region.count() == 0) continue;
    const Region source = ShardRegion(shape, step.from, piece.source);
    const std::vector<int64_t> source_stride = Shape(source.extent).Strides();
    const auto add = [&](const Region& box, bool accumulate) {
      program.pieces.push_back({piece.source, box.extent, OffsetIn(source, source_stride, box.start), source_stride,
                                OffsetIn(target, target_stride, box.start), target_stride, accumulate});
    };
    Parts parts = Divide(piece.region, covered);
    for (const Region& box : parts.seen) add(box, true);
    for (Region& box : parts.fresh) {
      add(box, false);
      num_covered += box.count();
      covered.push_back(std::move(box));
    }
  }
  program.zero_fill = num_covered < target.count();
  return program;
}

}  // namespace oneflow
