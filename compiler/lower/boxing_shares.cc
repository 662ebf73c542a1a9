#include "compiler/lower/boxing_shares.h"

#include <algorithm>

namespace oneflow {
namespace {

std::vector<int> SourcesOf(const std::vector<BoxingPiece>& pieces) {
  std::vector<int> sources;
  for (const BoxingPiece& piece : pieces) {
    if (piece.region.count() == 0) continue;
    if (std::find(sources.begin(), sources.end(), piece.source) == sources.end()) sources.push_back(piece.source);
  }
  return sources;
}

}  // namespace

absl::StatusOr<const GroupBoxing*> BoxingShares::Find(const TensorType& type, const DistType& from, const DistType& to,
                                                      int rank, bool by_sending) {
  BoxingGroup group = GroupOf(type.shape, from, to, rank);
  Key key(static_cast<int>(type.dtype), group.shape.dims(), group.from.placement, group.from.sbp, group.to.placement,
          group.to.sbp, by_sending);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second.get();
  auto boxing = std::make_unique<GroupBoxing>();
  boxing->group = std::move(group);
  OF_ASSIGN_OR_RETURN(
      boxing->step, OneBoxingStep({type.dtype, boxing->group.shape}, boxing->group.from, boxing->group.to, topology_));
  boxing->readers.resize(boxing->group.from.placement.size());
  for (const std::vector<BoxingPiece>& pieces : boxing->step.pieces) {
    const int destination = static_cast<int>(boxing->sources.size());
    boxing->sources.push_back(SourcesOf(pieces));
    for (const int source : boxing->sources.back()) boxing->readers[source].push_back(destination);
  }
  if (by_sending) boxing->shares = ShareOut(boxing->group.shape, boxing->step);
  return known_.emplace(std::move(key), std::move(boxing)).first->second.get();
}

}  // namespace oneflow
