#include "compiler/plan/boxings.h"

#include <algorithm>

#include "sbp/boxing_group.h"
#include "sbp/boxing_reads.h"

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

// The data that a boxing brings to ranks from other hosts.
class FarBounds {
 public:
  FarBounds(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology)
      : type_(type), from_(from), to_(to), topology_(topology) {}

  // On the rank that receives most, in bytes.
  absl::StatusOr<int64_t> Run() {
    int64_t most = 0;
    for (const int rank : to_.placement.ranks()) {
      OF_ASSIGN_OR_RETURN(const Group* const group, GroupOfRank(rank));
      most = std::max(most, FarBytes(*group, rank));
    }
    return most;
  }

 private:
  // Ends of parcels and of slots are rounded up.
  static constexpr int64_t kGaps = 8 + kAlignment;

  struct Group {
    std::unique_ptr<BoxingReads> reads;
    int64_t most = 0;  // bytes that a destination reads of all sources
  };

  absl::StatusOr<const Group*> GroupOfRank(int rank) {
    BoxingGroup of = GroupOf(type_.shape, from_, to_, rank);
    Group& group = groups_[{of.from.placement, of.to.placement}];
    if (group.reads != nullptr) return &group;
    OF_ASSIGN_OR_RETURN(group.reads, BoxingReads::Create({type_.dtype, of.shape}, of.from, of.to, topology_));
    for (const int corner : CornersOf(of.to.placement)) {
      int64_t bytes = 0;
      for (const BoxingPiece& piece : group.reads->PiecesOf(corner)) bytes += NumBytes(piece.region);
      group.most = std::max(group.most, bytes);
    }
    return &group;
  }

  // Of rows, with their counts.
  int64_t NumBytes(const Region& box) const {
    int64_t groups = 1;
    for (int d = 0; d < type_.ragged; ++d) groups *= box.extent[d];
    return box.count() * static_cast<int64_t>(SizeOf(type_.dtype)) +
           (type_.ragged >= 0 ? groups * static_cast<int64_t>(sizeof(int32_t)) : 0);
  }

  // Everything that it may read, except data on its own host.
  int64_t FarBytes(const Group& group, int rank) const {
    const Placement &sources = group.reads->from().placement, &readers = group.reads->to().placement;
    const auto [first, end] = topology_.RanksWithin(Distance::kHost, rank);
    int64_t near = 0, num_near = 0;
    for (int r = first; r < end; ++r) {
      const int source = sources.IndexOf(r);
      if (source < 0) continue;
      ++num_near;
      const std::optional<Region> box = group.reads->BoxOf(readers.IndexOf(rank), source);
      if (box.has_value()) near += NumBytes(*box);
    }
    const int64_t num_far = sources.size() - num_near;
    return num_far == 0 ? 0 : group.most - near + num_far * kGaps * (type_.ragged >= 0 ? 2 : 1);
  }

  const TensorType& type_;
  const DistType &from_, &to_;
  const Topology& topology_;
  std::map<std::pair<Placement, Placement>, Group> groups_;
};

}  // namespace

bool Boxings::ReadsOtherRanks(const Graph& graph, const Node& node) const {
  return !by_sending_ && !IsLocal(*graph.value(node.inputs[0]).dist, *graph.value(node.outputs[0]).dist);
}

bool Boxings::SharesAmongProcesses(const Graph& graph, const Node& node) const {
  if (!ReadsOtherRanks(graph, node)) return false;
  std::map<int, int> process_on;  // by host: the first process that was found
  const auto is_another = [&](int rank) {
    const int process = topology_.ProcessOf(rank);
    return process_on.try_emplace(topology_.HostOf(rank), process).first->second != process;
  };
  const std::vector<int>& from = graph.value(node.inputs[0]).dist->placement.ranks();
  const std::vector<int>& to = graph.value(node.outputs[0]).dist->placement.ranks();
  return std::any_of(from.begin(), from.end(), is_another) || std::any_of(to.begin(), to.end(), is_another);
}

Boxings::Key Boxings::KeyOf(const Value& from, const Value& to) {
  const int pair = pairs_.Pair(pairs_.Number(from.dist->placement), pairs_.Number(to.dist->placement));
  return {pair, from.type.dtype, from.type.shape.dims(), from.type.ragged, from.dist->sbp, to.dist->sbp};
}

absl::StatusOr<int64_t> Boxings::LandedBytes(const Graph& graph, const Node& node) {
  if (by_sending_ || topology_.num_hosts() == 1) return 0;
  const Value& from = graph.value(node.inputs[0]);
  const Value& to = graph.value(node.outputs[0]);
  const auto [known, is_new] = landed_.try_emplace(KeyOf(from, to), 0);
  if (!is_new) return known->second;
  OF_ASSIGN_OR_RETURN(known->second, FarBounds(from.type, *from.dist, *to.dist, topology_).Run());
  return known->second;
}

absl::StatusOr<SendBuffers> Boxings::BuffersOf(const Graph& graph, const Node& node) {
  const Value& from = graph.value(node.inputs[0]);
  const Value& to = graph.value(node.outputs[0]);
  const auto [known, is_new] = known_.try_emplace(KeyOf(from, to));
  if (!is_new) return known->second;
  SendBuffers most;  // in elements
  for (const BoxingGroup& group : DifferentGroups(from.type.shape, *from.dist, *to.dist)) {
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<BoxingReads> reads,
                        BoxingReads::Create({from.type.dtype, group.shape}, group.from, group.to, topology_));
    const SendBuffers of_group = MostSent(*reads, from.type.ragged);
    most.packed = std::max(most.packed, of_group.packed);
    most.received = std::max(most.received, of_group.received);
  }
  const auto element = static_cast<int64_t>(SizeOf(from.type.dtype));
  return known->second = {most.packed * element, most.received * element};
}

SendBuffers MostSent(BoxingReads& reads, int rows) { return ShareBounds(reads, rows).Run(); }

}  // namespace oneflow
