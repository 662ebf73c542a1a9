#include "compiler/plan/boxings.h"

#include <algorithm>

#include "sbp/boxing_group.h"
#include "sbp/boxing_reads.h"

namespace oneflow {
namespace {

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
    BoxingGroup of = groups_of_.Of(rank);
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
  const BoxingGroups groups_of_{type_.shape, from_, to_};
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

}  // namespace oneflow
