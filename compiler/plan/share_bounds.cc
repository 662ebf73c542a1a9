#include "compiler/plan/share_bounds.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace oneflow {
namespace {

// Upper bounds on the packed and received data of a boxing's shares (collectives.h), from the sizes of each rank's
// shards alone. They are exact for even all-gathers, reduce-scatters and all-to-alls, and wherever boxes are runs, so
// that nothing is packed or unpacked.
class ShareBounds {
 public:
  ShareBounds(BoxingReads& reads, int rows)
      : reads_(reads),
        rows_(rows),
        shape_(reads.shape()),
        from_(reads.matched_from()),
        to_(reads.matched_to()),
        roles_(ReadRolesOf(from_, to_)),
        has_zeros_(reads.MakesAddends()) {
    FindFactors();
    for (int d = 0; d < shape_.rank(); ++d) {
      from_cuts_.push_back(CutsOf(from_, d));
      to_cuts_.push_back(CutsOf(to_, d));
    }
  }

  // In elements.
  SendBuffers Run() {
    SendBuffers most;
    // A reduce-scatter is a gather backwards. Ragged rows are exchanged.
    const bool gather = rows_ < 0 && IsGather(from_, to_), scatter = rows_ < 0 && IsGather(to_, from_);
    if (gather && IsEven(from_)) {
      if (!SharesRuns(WholeRegion(shape_), from_)) most.received = shape_.count();
      return most;
    }
    if (scatter && IsEven(to_)) {
      if (!SharesRuns(WholeRegion(shape_), to_)) most.packed = shape_.count();
      return most;
    }
    has_groups_ = rows_ < 0 && !gather && !scatter;
    const Placement &from = from_.placement, &to = to_.placement;
    for (int s = 0; s < from.size(); ++s) {
      most.packed = std::max(most.packed, Sent(s, to.IndexOf(from.ranks()[s])));
    }
    for (int d = 0; d < to.size(); ++d) {
      most.received = std::max(most.received, Received(d, from.IndexOf(to.ranks()[d])));
    }
    return most;
  }

 private:
  // Whether the interval [start, start + extent) of a dimension lies within one of the parts into which `dist` cuts it.
  bool LiesInOnePart(int dim, int64_t start, int64_t extent, const DistType& dist) const {
    int64_t part_start = 0, part = shape_[dim];
    for (int a = 0; a < dist.placement.num_axes(); ++a) {
      const int parts = dist.placement.axes()[a].size;
      if (!dist.sbp[a].is_split() || dist.sbp[a].dim() != dim || parts == 1) continue;
      const int64_t base = part / parts, longer = part % parts, at = start - part_start;
      const int64_t index = at < longer * (base + 1) ? at / (base + 1) : longer + (at - longer * (base + 1)) / base;
      const auto [offset, size] = BalancedPart(part, parts, static_cast<int>(index));
      if (at + extent > offset + size) return false;
      part_start += offset;
      part = size;
    }
    return true;
  }

  // Whether each box that a shard of this region shares with one of `other` is a run of its elements: only its first
  // dimension is cut. Filled ragged rows are a run within one group only.
  bool SharesRuns(const Region& region, const DistType& other) const {
    if (region.count() == 0) return true;
    for (int d = 0; d < rows_; ++d) {
      if (region.extent[d] > 1) return false;
    }
    size_t first = 0;
    while (first < region.extent.size() && region.extent[first] == 1) ++first;
    for (size_t d = first + 1; d < region.extent.size(); ++d) {
      if (!LiesInOnePart(static_cast<int>(d), region.start[d], region.extent[d], other)) return false;
    }
    return true;
  }

  // Whether one type cuts the tensor along all axes, and the other has all of it on each rank (or an addend, if it is
  // `from_`).
  bool IsGather(const DistType& parts, const DistType& whole) const {
    if (parts.placement != whole.placement || parts.placement.size() < 2) return false;
    for (int a = 0; a < parts.placement.num_axes(); ++a) {
      if (parts.placement.axes()[a].size == 1) continue;
      const bool is_whole = &whole == &from_ ? whole.sbp[a].is_partial() : whole.sbp[a].is_broadcast();
      if (!parts.sbp[a].is_split() || !is_whole) return false;
    }
    return true;
  }
  bool IsEven(const DistType& parts) const {
    return ShardShape(shape_, parts, 0).count() * parts.placement.size() == shape_.count();
  }

  static int CutsOf(const DistType& dist, int dim) {
    int cuts = 0;
    for (int a = 0; a < dist.placement.num_axes(); ++a) {
      cuts += dist.placement.axes()[a].size > 1 && dist.sbp[a].is_split() && dist.sbp[a].dim() == dim;
    }
    return cuts;
  }

  // The most destinations that read one element of a source, and the most sources that a destination reads for one of
  // its own elements.
  void FindFactors() {
    std::vector<bool> own_of_to(to_.placement.num_axes(), false);
    for (int a = 0; a < from_.placement.num_axes(); ++a) {
      if (roles_.of_from[a] == ReadRoles::Role::kOwn) {
        own_of_to[roles_.own[a]] = true;
      }
      if (roles_.of_from[a] == ReadRoles::Role::kAll && from_.sbp[a].is_partial()) {
        addends_ *= from_.placement.axes()[a].size;
      }
    }
    for (int b = 0; b < to_.placement.num_axes(); ++b) {
      const bool each_reads = !to_.sbp[b].is_split() && !own_of_to[b] && !roles_.zero_of_to[b];
      if (each_reads) copies_ *= to_.placement.axes()[b].size;
    }
  }

  // The elements of `region` after cutting it, along each axis on which a destination reads its own coordinate only, as
  // the other side does; where that is not one interval, all of it.
  int64_t CountWithin(Region region, const Placement& holder, int index, bool as_sent) const {
    const std::vector<int> at = holder.Coordinates(index);
    for (int a = 0; a < from_.placement.num_axes(); ++a) {
      if (roles_.of_from[a] != ReadRoles::Role::kOwn) continue;
      const Sbp& other = as_sent ? to_.sbp[roles_.own[a]] : from_.sbp[a];
      if (!other.is_split() || (as_sent ? to_cuts_ : from_cuts_)[other.dim()] != 1) continue;
      const int size = from_.placement.axes()[a].size, dim = other.dim();
      const auto [start, extent] = BalancedPart(shape_[dim], size, at[as_sent ? a : roles_.own[a]]);
      const int64_t end = std::min(region.start[dim] + region.extent[dim], start + extent);
      region.start[dim] = std::max(region.start[dim], start);
      region.extent[dim] = std::max<int64_t>(0, end - region.start[dim]);
    }
    return region.count();
  }

  int64_t OwnCount(int destination, int source) {
    if (destination < 0 || source < 0) return 0;
    const std::optional<Region> own = reads_.BoxOf(destination, source);
    return own.has_value() ? own->count() : 0;
  }

  // Whether a rank that keeps `own` of its `part` may be a member of a gather, or of a scatter backwards: these count
  // the kept elements as well.
  bool MayGather(int64_t whole, int64_t part, int64_t own) const {
    return has_groups_ && part > 0 && own == part && whole >= 2 * part && whole % part == 0;
  }

  int64_t Sent(int source, int destination) {
    const Region shard = ShardRegion(shape_, from_, source);
    if (SharesRuns(shard, to_)) return 0;
    const int64_t boxes = CountWithin(shard, from_.placement, source, /*as_sent=*/true);
    const int64_t own = OwnCount(destination, source);
    if (rows_ >= 0) return copies_ > 1 ? boxes : boxes - own;  // shared boxes are packed once
    const int64_t all = copies_ * boxes;
    const int64_t target = destination < 0 ? 0 : ShardShape(shape_, to_, destination).count();
    return addends_ > 1 && MayGather(shard.count(), target, own) ? all : all - own;
  }

  int64_t Received(int destination, int source) {
    if (reads_.ReadsNothing(destination)) return 0;
    const Region shard = ShardRegion(shape_, to_, destination);
    const int64_t own = OwnCount(destination, source);
    if (addends_ == 1 && own == 0 && !has_zeros_ && SharesRuns(shard, from_)) return 0;
    const int64_t all = addends_ * CountWithin(shard, to_.placement, destination, /*as_sent=*/false);
    const int64_t given = source < 0 ? 0 : ShardShape(shape_, from_, source).count();
    return copies_ > 1 && addends_ == 1 && MayGather(shard.count(), given, own) ? all : all - own;
  }

  BoxingReads& reads_;
  const int rows_;  // the dimension of ragged rows, or -1
  const Shape& shape_;
  const DistType &from_, &to_;
  const ReadRoles roles_;
  const bool has_zeros_;
  std::vector<int> from_cuts_, to_cuts_;  // by dimension: the number of axes that cut it
  int64_t addends_ = 1, copies_ = 1;
  bool has_groups_ = true;  // of ranks; some may gather or scatter among themselves
};

}  // namespace

SendBuffers MostSent(BoxingReads& reads, int rows) { return ShareBounds(reads, rows).Run(); }

}  // namespace oneflow
