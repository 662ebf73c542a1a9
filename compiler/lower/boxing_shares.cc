#include "compiler/lower/boxing_shares.h"

#include <algorithm>

#include "sbp/slices.h"

namespace oneflow {

const GroupBoxing::Copies& GroupBoxing::CopiesOf(int destination) {
  const auto [it, is_new] = copies_.try_emplace(destination);
  Copies& copies = it->second;
  if (!is_new) return copies;
  copies.program = CopiesFor(*reads_, destination);
  std::map<int, int> position;
  for (CopyPiece& piece : copies.program.pieces) {
    const auto [at, first] = position.try_emplace(piece.source, static_cast<int>(copies.sources.size()));
    if (first) copies.sources.push_back(piece.source);
    piece.source = at->second;
  }
  return copies;
}

std::optional<CopyPiece> GroupBoxing::PieceBetween(int destination, int source) {
  const std::optional<Region> box = reads_->BoxOf(destination, source);
  if (!box.has_value()) return std::nullopt;
  return PieceOf(*box, source, ShardRegion(reads_->shape(), reads_->from(), source),
                 ShardRegion(reads_->shape(), reads_->to(), destination));
}

const std::vector<int>& GroupBoxing::ReadersOf(int source) {
  const auto [it, is_new] = readers_.try_emplace(source);
  for (int d = 0; is_new && d < to().size(); ++d) {
    if (reads_->BoxOf(d, source).has_value()) it->second.push_back(d);
  }
  return it->second;
}

const BoxingShare* GroupBoxing::ShareOf(int rank) {
  const auto [it, is_new] = shares_.try_emplace(rank);
  if (is_new) it->second = oneflow::ShareOf(*reads_, rank, rows_);
  return it->second.has_value() ? &*it->second : nullptr;
}

absl::StatusOr<GroupBoxing*> BoxingShares::Find(const TensorType& type, const DistType& from, const DistType& to,
                                                int rank) {
  BoxingGroup group = GroupOf(type.shape, from, to, rank);
  Key key(static_cast<int>(type.dtype), group.shape.dims(), type.ragged, group.from.placement, group.from.sbp,
          group.to.placement, group.to.sbp);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second.get();
  OF_ASSIGN_OR_RETURN(std::unique_ptr<BoxingReads> reads,
                      BoxingReads::Create({type.dtype, group.shape}, group.from, group.to, topology_));
  auto boxing = std::make_unique<GroupBoxing>(std::move(reads), type.ragged);
  return known_.emplace(std::move(key), std::move(boxing)).first->second.get();
}

}  // namespace oneflow
