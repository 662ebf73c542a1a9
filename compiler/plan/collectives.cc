#include "compiler/plan/collectives.h"

#include <algorithm>

#include "oneflow_core/union_find.h"

namespace oneflow {
namespace {

int64_t Elements(const CopyPiece& piece) { return Shape(piece.extent).count(); }

// Whether a box of these strides is one run of elements.
bool IsRun(const std::vector<int64_t>& extent, const std::vector<int64_t>& stride) {
  int64_t expected = 1;
  for (size_t d = extent.size(); d-- > 0;) {
    if (extent[d] > 1 && stride[d] != expected) return false;
    expected *= extent[d];
  }
  return true;
}

struct Destination {
  int rank = 0;
  CopyProgram program;
};

// Ranks that exchange something among themselves, directly or through others of them.
struct Group {
  std::vector<int> members;  // ascending
  std::vector<Destination> destinations;
};

class Sharing {
 public:
  Sharing(const Shape& shape, const BoxingStep& step) : shape_(shape), step_(step) {
    for (int d = 0; d < step.to.placement.size(); ++d) {
      destinations_.push_back({step.to.placement.ranks()[d], CopiesFor(shape, step, d)});
    }
  }

  std::map<int, BoxingShare> Run() {
    for (const Group& group : FindGroups()) {
      if (group.members.size() == 1) {
        shares_[group.members[0]].unpack = group.destinations[0].program;
        shares_[group.members[0]].unpack_reads_shard = !group.destinations[0].program.pieces.empty();
        for (CopyPiece& piece : shares_[group.members[0]].unpack->pieces) piece.source = 0;
      } else if (!AllGather(group) && !ReduceScatter(group) && !Broadcast(group)) {
        for (int rank : group.members) shares_[rank] = Exchange(group, rank);
      }
    }
    return std::move(shares_);
  }

 private:
  int RankOf(const CopyPiece& piece) const { return step_.from.placement.ranks()[piece.source]; }
  int64_t SourceCount(int rank) const {
    return ShardShape(shape_, step_.from, step_.from.placement.IndexOf(rank)).count();
  }
  int64_t TargetCount(int rank) const { return ShardShape(shape_, step_.to, step_.to.placement.IndexOf(rank)).count(); }
  static int PositionOf(int rank, const std::vector<int>& members) {
    return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
  }

  std::vector<Group> FindGroups() const;
  bool ReadsEveryMemberOnce(const Destination& to, const Group& group, int64_t count) const;
  bool AllGather(const Group& group);
  bool ReduceScatter(const Group& group);
  bool Broadcast(const Group& group);
  BoxingShare Exchange(const Group& group, int rank) const;
  void Send(const Group& group, int rank, BoxingShare& share) const;
  void Receive(const Destination& to, BoxingShare& share) const;

  const Shape& shape_;
  const BoxingStep& step_;
  std::vector<Destination> destinations_;
  std::map<int, BoxingShare> shares_;
};

std::vector<Group> Sharing::FindGroups() const {
  std::vector<int> ranks;  // all that take part
  for (const Destination& to : destinations_) {
    ranks.push_back(to.rank);
    for (const CopyPiece& piece : to.program.pieces) ranks.push_back(RankOf(piece));
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const auto number = [&](int rank) {
    return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
  };
  UnionFind together(static_cast<int>(ranks.size()));
  for (const Destination& to : destinations_) {
    for (const CopyPiece& piece : to.program.pieces) together.Unite(number(to.rank), number(RankOf(piece)));
  }
  std::map<int, Group> groups;  // by number of the lowest rank
  for (int rank : ranks) groups[together.Find(number(rank))].members.push_back(rank);
  for (const Destination& to : destinations_) groups[together.Find(number(to.rank))].destinations.push_back(to);
  std::vector<Group> result;
  for (auto& [lowest, group] : groups) result.push_back(std::move(group));
  return result;
}

// Whether each member gives one box of `count` elements to `to`, and nothing of the result is left.
bool Sharing::ReadsEveryMemberOnce(const Destination& to, const Group& group, int64_t count) const {
  std::vector<int> sources;
  for (const CopyPiece& piece : to.program.pieces) {
    if (Elements(piece) != count) return false;
    sources.push_back(RankOf(piece));
  }
  std::sort(sources.begin(), sources.end());
  return !to.program.zero_fill && sources == group.members;
}

bool Sharing::AllGather(const Group& group) {
  if (group.destinations.size() != group.members.size()) return false;
  if (step_.from.placement.IndexOf(group.members[0]) < 0) return false;
  const int64_t count = SourceCount(group.members[0]);
  for (const Destination& to : group.destinations) {
    if (!ReadsEveryMemberOnce(to, group, count)) return false;
    for (const CopyPiece& piece : to.program.pieces) {
      if (piece.accumulate || SourceCount(RankOf(piece)) != count) return false;
    }
  }
  // In the order of their places in the result, if these are runs; else by rank, and unpacked.
  std::vector<CopyPiece> by_place = group.destinations[0].program.pieces;
  std::stable_sort(by_place.begin(), by_place.end(),
                   [](const CopyPiece& a, const CopyPiece& b) { return a.target_offset < b.target_offset; });
  std::vector<int> order;
  for (const CopyPiece& piece : by_place) order.push_back(RankOf(piece));
  bool in_place = true;
  for (const Destination& to : group.destinations) {
    for (const CopyPiece& piece : to.program.pieces) {
      in_place = in_place && IsRun(piece.extent, piece.target_stride) &&
                 piece.target_offset == PositionOf(RankOf(piece), order) * count;
    }
  }
  for (const Destination& to : group.destinations) {
    BoxingShare& share = shares_[to.rank];
    share.call = GroupCall::kAllGather;
    share.members = in_place ? order : group.members;
    share.sends = share.receives = true;
    if (in_place) continue;
    share.received = static_cast<int64_t>(group.members.size()) * count;
    share.unpack = to.program;
    for (CopyPiece& piece : share.unpack->pieces) {
      piece.source_offset += PositionOf(RankOf(piece), group.members) * count;
      piece.source = 1;
    }
  }
  return true;
}

bool Sharing::ReduceScatter(const Group& group) {
  const int64_t size = static_cast<int64_t>(group.members.size());
  if (group.destinations.size() != group.members.size()) return false;
  const int64_t count = TargetCount(group.members[0]);
  for (const Destination& to : group.destinations) {
    if (TargetCount(to.rank) != count || !ReadsEveryMemberOnce(to, group, count)) return false;
    for (size_t i = 0; i < to.program.pieces.size(); ++i) {
      const CopyPiece& piece = to.program.pieces[i];
      if (piece.accumulate != (i > 0) || SourceCount(RankOf(piece)) != size * count) return false;
    }
  }
  // In the order of the parts' places in the shards, if these are runs; else by rank, and packed.
  std::vector<const Destination*> by_place;
  for (const Destination& to : group.destinations) by_place.push_back(&to);
  std::stable_sort(by_place.begin(), by_place.end(), [](const Destination* a, const Destination* b) {
    return a->program.pieces[0].source_offset < b->program.pieces[0].source_offset;
  });
  std::vector<int> order;
  for (const Destination* to : by_place) order.push_back(to->rank);
  bool in_place = true;
  for (const Destination& to : group.destinations) {
    for (const CopyPiece& piece : to.program.pieces) {
      in_place = in_place && IsRun(piece.extent, piece.source_stride) &&
                 piece.source_offset == PositionOf(to.rank, order) * count;
    }
  }
  for (int rank : group.members) {
    BoxingShare& share = shares_[rank];
    share.call = GroupCall::kReduceScatter;
    share.members = in_place ? order : group.members;
    share.sends = share.receives = true;
    if (in_place) continue;
    share.packed = size * count;
    share.pack.emplace();
    for (const Destination& to : group.destinations) {
      for (CopyPiece piece : to.program.pieces) {
        if (RankOf(piece) != rank) continue;
        piece.source = 0;
        piece.target_offset += PositionOf(to.rank, group.members) * count;
        piece.accumulate = false;
        share.pack->pieces.push_back(std::move(piece));
      }
    }
  }
  return true;
}

bool Sharing::Broadcast(const Group& group) {
  if (group.destinations.empty() || group.destinations[0].program.pieces.empty()) return false;
  const int source = RankOf(group.destinations[0].program.pieces[0]);
  const int64_t count = SourceCount(source);
  int others = 0;
  for (const Destination& to : group.destinations) {
    const CopyProgram& program = to.program;
    if (program.pieces.size() != 1 || RankOf(program.pieces[0]) != source || program.zero_fill) return false;
    if (Elements(program.pieces[0]) != count) return false;
    others += to.rank != source;
  }
  if (others < 2) return false;  // a pair has nothing to gain
  std::vector<int> members = {source};
  for (int rank : group.members) {
    if (rank != source) members.push_back(rank);
  }
  for (int rank : members) {
    BoxingShare& share = shares_[rank];
    share.call = GroupCall::kBroadcast;
    share.members = members;
    share.sends = rank == source;
  }
  for (const Destination& to : group.destinations) shares_[to.rank].receives = true;
  return true;
}

BoxingShare Sharing::Exchange(const Group& group, int rank) const {
  BoxingShare share;
  share.call = GroupCall::kExchange;
  share.members = group.members;
  share.transfers.resize(group.members.size());
  for (size_t i = 0; i < group.members.size(); ++i) share.transfers[i].peer = static_cast<int>(i);
  Send(group, rank, share);
  for (const Destination& to : group.destinations) {
    if (to.rank == rank) Receive(to, share);
  }
  share.transfers.erase(
      std::remove_if(share.transfers.begin(), share.transfers.end(),
                     [](const PlannedTransfer& x) { return x.send_count == 0 && x.receive_count == 0; }),
      share.transfers.end());
  return share;
}

void Sharing::Send(const Group& group, int rank, BoxingShare& share) const {
  CopyProgram pack;
  bool in_place = true;
  int64_t packed = 0;
  std::vector<PlannedTransfer> runs = share.transfers;  // if sent from where they are
  for (const Destination& to : group.destinations) {
    if (to.rank == rank) continue;
    const int peer = PositionOf(to.rank, group.members);
    share.transfers[peer].send_offset = packed;
    for (CopyPiece piece : to.program.pieces) {
      if (RankOf(piece) != rank) continue;
      in_place = in_place && runs[peer].send_count == 0 && IsRun(piece.extent, piece.source_stride);
      runs[peer].send_offset = piece.source_offset;
      runs[peer].send_count = share.transfers[peer].send_count += Elements(piece);
      piece.source = 0;
      piece.target_offset = packed;
      piece.target_stride = Shape(piece.extent).Strides();
      piece.accumulate = false;
      packed += Elements(piece);
      pack.pieces.push_back(std::move(piece));
    }
  }
  share.sends = packed > 0;
  if (in_place) {
    share.transfers = std::move(runs);
  } else {
    share.packed = packed;
    share.pack = std::move(pack);
  }
}

void Sharing::Receive(const Destination& to, BoxingShare& share) const {
  // Received per peer, in the order in which the peer packs: that of this program.
  std::vector<std::vector<size_t>> from(share.members.size());
  const std::vector<CopyPiece>& pieces = to.program.pieces;
  bool in_place = !to.program.zero_fill;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int peer = PositionOf(RankOf(pieces[i]), share.members);
    const bool own = RankOf(pieces[i]) == to.rank;
    in_place = in_place && !own && !pieces[i].accumulate && from[peer].empty() &&
               IsRun(pieces[i].extent, pieces[i].target_stride);
    share.unpack_reads_shard = share.unpack_reads_shard || own;
    if (!own) from[peer].push_back(i);
  }
  CopyProgram unpack = to.program;
  for (CopyPiece& piece : unpack.pieces) piece.source = 0;
  int64_t received = 0;
  for (size_t peer = 0; peer < from.size(); ++peer) {
    PlannedTransfer& transfer = share.transfers[peer];
    transfer.receive_offset = in_place && !from[peer].empty() ? pieces[from[peer][0]].target_offset : received;
    for (size_t i : from[peer]) {
      CopyPiece& piece = unpack.pieces[i];
      piece.source = 1;
      piece.source_offset = received;
      piece.source_stride = Shape(piece.extent).Strides();
      received += Elements(piece);
      transfer.receive_count += Elements(piece);
    }
  }
  share.receives = received > 0;
  if (in_place && share.receives) return;
  share.received = received;
  share.unpack = std::move(unpack);
}

}  // namespace

const char* Name(GroupCall call) {
  constexpr const char* kNames[] = {"none", "reduce-scatter", "all-gather", "broadcast", "exchange"};
  return kNames[static_cast<int>(call)];
}

std::map<int, BoxingShare> ShareOut(const Shape& shape, const BoxingStep& step) { return Sharing(shape, step).Run(); }

}  // namespace oneflow
