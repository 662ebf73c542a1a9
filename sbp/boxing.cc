#include "sbp/boxing.h"

#include <algorithm>
#include <map>

#include "sbp/boxing_check.h"
#include "sbp/boxing_geometry.h"
#include "sbp/boxing_reads.h"
#include "sbp/collective.h"
#include "sbp/host_axes.h"

namespace oneflow {

absl::Status CheckOneBoxingStep(const TensorType& type, const DistType& from, const DistType& to,
                                const Topology& topology) {
  OF_RETURN_IF_ERROR(CheckBoxing(type, from, to, topology));
  OF_RETURN_IF_ERROR(ReductionOf(from, to).status());
  const auto common = OnCommonAxes(type.shape, from, to);
  const AxisRoles roles = common.has_value() ? RolesOf(common->first, common->second) : RolesOf(from, to);
  if (roles.num_addends > 1 && roles.num_copies > 1) {
    return absl::UnimplementedError(
        absl::StrCat("boxing ", from.ToString(), " to ", to.ToString(), ": one step would combine ", roles.num_addends,
                     " addends once for each of ", roles.num_copies, " copies; take the steps of BoxingPath"));
  }
  return absl::OkStatus();
}

absl::StatusOr<BoxingStep> OneBoxingStep(const TensorType& type, const DistType& from, const DistType& to,
                                         const Topology& topology) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<BoxingReads> reads, BoxingReads::Create(type, from, to, topology));
  BoxingStep step{from, to, reads->reduction()};
  for (int index = 0; index < to.placement.size(); ++index) step.pieces.push_back(reads->PiecesOf(index));
  step.collective = RecogniseCollective(type.shape, step);
  return step;
}

int64_t BytesMoved(const TensorType& type, const BoxingStep& step) {
  int64_t elements = 0;
  for (size_t i = 0; i < step.pieces.size(); ++i) {
    for (const BoxingPiece& piece : step.pieces[i]) {
      const bool own = step.from.placement.ranks()[piece.source] == step.to.placement.ranks()[i];
      if (!own) elements += piece.region.count();
    }
  }
  return elements * static_cast<int64_t>(SizeOf(type.dtype));
}

double Seconds(const TensorType& type, const BoxingStep& step, const Topology& topology) {
  double slowest = 0;
  std::map<int, double> into_host, out_of_host;  // of all cards together
  for (size_t i = 0; i < step.pieces.size(); ++i) {
    double seconds = 0;
    const int to = step.to.placement.ranks()[i];
    for (const BoxingPiece& piece : step.pieces[i]) {
      const int from = step.from.placement.ranks()[piece.source];
      const Link link = topology.LinkBetween(from, to);
      const double bytes = static_cast<double>(piece.region.count() * SizeOf(type.dtype));
      seconds += link.alpha_s + link.beta_s_per_byte * bytes;
      if (topology.Between(from, to) != Distance::kNetwork) continue;
      into_host[topology.HostOf(to)] += topology.HostBeta(from, to) * bytes;
      out_of_host[topology.HostOf(from)] += topology.HostBeta(from, to) * bytes;
    }
    slowest = std::max(slowest, seconds);
  }
  for (const std::map<int, double>& cards : {into_host, out_of_host}) {
    for (const auto& [host, seconds] : cards) slowest = std::max(slowest, seconds);
  }
  return slowest;
}

}  // namespace oneflow
