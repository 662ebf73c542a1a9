#include "sbp/boxing_reads.h"

#include <utility>

#include "sbp/boxing_check.h"
#include "sbp/host_axes.h"

namespace oneflow {

BoxingReads::BoxingReads(Shape shape, DistType from, DistType to, std::pair<DistType, DistType> common,
                         Reduction reduction, const Topology& topology)
    : shape_(std::move(shape)),
      from_(std::move(from)),
      to_(std::move(to)),
      common_(std::move(common)),
      reduction_(reduction),
      geometry_(shape_, common_.first, common_.second, topology) {}

absl::StatusOr<std::unique_ptr<BoxingReads>> BoxingReads::Create(const TensorType& type, const DistType& from,
                                                                 const DistType& to, const Topology& topology) {
  OF_RETURN_IF_ERROR(CheckOneBoxingStep(type, from, to, topology));
  OF_ASSIGN_OR_RETURN(const Reduction reduction, ReductionOf(from, to));
  auto common = OnCommonAxes(type.shape, from, to).value_or(std::pair(from, to));
  return std::unique_ptr<BoxingReads>(new BoxingReads(type.shape, from, to, std::move(common), reduction, topology));
}

std::vector<BoxingPiece> BoxingReads::PiecesOf(int destination) {
  const int rank = shape_.rank();
  std::vector<BoxingPiece> pieces;
  geometry_.ForEachBox(destination, [&](int source, const int64_t* start, const int64_t* extent, int64_t) {
    pieces.push_back({source, {{start, start + rank}, {extent, extent + rank}}});
  });
  return pieces;
}

std::optional<Region> BoxingReads::BoxOf(int destination, int source) {
  const int rank = shape_.rank();
  std::optional<Region> box;
  geometry_.VisitBox(destination, source, [&](const int64_t* start, const int64_t* extent) {
    box = Region{{start, start + rank}, {extent, extent + rank}};
  });
  return box;
}

bool BoxingReads::MakesAddends() const {
  const DistType& from = common_.first;
  const ReadRoles roles = ReadRolesOf(from, common_.second);
  for (int a = 0; a < from.placement.num_axes(); ++a) {
    const bool own = roles.of_from[a] == ReadRoles::Role::kOwn && from.placement.axes()[a].size > 1;
    if (own && from.sbp[a].is_split()) return true;
  }
  return false;
}

}  // namespace oneflow
