#include "compiler/plan/copy_pieces.h"

#include "absl/container/flat_hash_set.h"

namespace oneflow {
namespace {

int64_t OffsetIn(const Region& shard, const std::vector<int64_t>& strides, const std::vector<int64_t>& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += (at[d] - shard.start[d]) * strides[d];
  return offset;
}

}  // namespace

CopyPiece PieceOf(const Region& box, int source, const Region& source_shard, const Region& target_shard) {
  CopyPiece piece{source, box.extent};
  piece.source_stride = Shape(source_shard.extent).Strides();
  piece.target_stride = Shape(target_shard.extent).Strides();
  piece.source_offset = OffsetIn(source_shard, piece.source_stride, box.start);
  piece.target_offset = OffsetIn(target_shard, piece.target_stride, box.start);
  return piece;
}

CopyProgram CopiesFor(BoxingReads& reads, int index) {
  const Region target = ShardRegion(reads.shape(), reads.to(), index);
  CopyProgram program;
  absl::flat_hash_set<int64_t> covered;  // the beginnings of boxes that the target has so far
  int64_t num_covered = 0;
  for (const BoxingPiece& box : reads.PiecesOf(index)) {
    const Region source = ShardRegion(reads.shape(), reads.from(), box.source);
    CopyPiece piece = PieceOf(box.region, box.source, source, target);
    piece.accumulate = !covered.insert(piece.target_offset).second;
    if (!piece.accumulate) num_covered += box.region.count();
    program.pieces.push_back(std::move(piece));
  }
  program.zero_fill = num_covered < target.count();
  return program;
}

}  // namespace oneflow
