#include "compiler/plan/collectives.h"

#include <algorithm>
#include <map>
#include <set>

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

// A box of a shard, counted from the shard's beginning.
Region Within(Region box, const Region& shard) {
  for (size_t d = 0; d < box.start.size(); ++d) box.start[d] -= shard.start[d];
  return box;
}

// The share of one rank. Where properties of other ranks' copies matter, they follow from counts: a box is no larger
// than the shards that it lies in, and the reads of a destination cover its shard once per addend.
class Sharing {
 public:
  Sharing(BoxingReads& reads, int rank, int rows)
      : reads_(reads), rank_(rank), rows_(rows), source_(SourceOf(rank)), destination_(DestinationOf(rank)) {
    if (destination_ >= 0) own_ = CopiesFor(reads, destination_);
  }

  std::optional<BoxingShare> Run() {
    FindMembers();
    if (members_.size() == 1) {
      if (destination_ < 0) return std::nullopt;
      share_.unpack = own_;
      share_.unpack_reads_shard = !own_.pieces.empty();
      for (CopyPiece& piece : share_.unpack->pieces) piece.source = 0;
    } else if (rows_ >= 0 || (!AllGather() && !ReduceScatter() && !Broadcast())) {
      Exchange();
    }
    return std::move(share_);
  }

 private:
  int SourceOf(int rank) const { return reads_.from().placement.IndexOf(rank); }
  int DestinationOf(int rank) const { return reads_.to().placement.IndexOf(rank); }
  int RankOfSource(int source) const { return reads_.from().placement.ranks()[source]; }
  int64_t SourceCount(int source) const { return ShardShape(reads_.shape(), reads_.from(), source).count(); }
  int64_t TargetCount(int destination) const { return ShardShape(reads_.shape(), reads_.to(), destination).count(); }
  int PositionOf(int rank) const {
    return static_cast<int>(std::lower_bound(members_.begin(), members_.end(), rank) - members_.begin());
  }

  void AddNeighbours(int rank, std::vector<int>& found) const;
  void FindMembers();
  bool AllCount(int64_t source_count, int64_t target_count) const;
  bool OwnReadsAll(int64_t count) const;
  CopyPiece GivenTo(int destination, const Region& box) const;
  bool FillsRun(const std::vector<int64_t>& extent, const std::vector<int64_t>& stride) const;
  bool AllGather();
  bool ReduceScatter();
  bool Broadcast();
  void Exchange();
  void Send();
  void Receive();

  BoxingReads& reads_;
  const int rank_;
  const int rows_;                  // the dimension of ragged rows, or -1
  const int source_, destination_;  // the rank's places in the two placements, or -1
  CopyProgram own_;                 // of the destination
  std::vector<int> members_;        // ranks, ascending: they exchange data, directly or through other members
  std::vector<int> destinations_;   // those of the members, ascending
  BoxingShare share_;
};

// The ranks that `rank` reads from or gives to.
void Sharing::AddNeighbours(int rank, std::vector<int>& found) const {
  if (const int d = DestinationOf(rank); d >= 0) {
    for (const BoxingPiece& piece : reads_.PiecesOf(d)) found.push_back(RankOfSource(piece.source));
  }
  const int s = SourceOf(rank);
  for (int d = 0; s >= 0 && d < reads_.to().placement.size(); ++d) {
    if (reads_.BoxOf(d, s).has_value()) found.push_back(reads_.to().placement.ranks()[d]);
  }
}

// Stops when all ranks are found; in most boxings they are all neighbours of one another.
void Sharing::FindMembers() {
  std::set<int> all(reads_.from().placement.ranks().begin(), reads_.from().placement.ranks().end());
  all.insert(reads_.to().placement.ranks().begin(), reads_.to().placement.ranks().end());
  std::set<int> found = {rank_};
  std::vector<int> queue = {rank_};
  for (size_t head = 0; head < queue.size() && found.size() < all.size(); ++head) {
    std::vector<int> neighbours;
    AddNeighbours(queue[head], neighbours);
    for (const int rank : neighbours) {
      if (found.insert(rank).second) queue.push_back(rank);
    }
  }
  members_.assign(found.begin(), found.end());
  for (const int rank : members_) {
    if (const int d = DestinationOf(rank); d >= 0) destinations_.push_back(d);
  }
  std::sort(destinations_.begin(), destinations_.end());
}

// Whether every member sends and receives, with shards of these sizes, and receives all of its own.
bool Sharing::AllCount(int64_t source_count, int64_t target_count) const {
  return !reads_.MakesAddends() && std::all_of(members_.begin(), members_.end(), [&](int rank) {
    const int s = SourceOf(rank), d = DestinationOf(rank);
    return s >= 0 && d >= 0 && SourceCount(s) == source_count && TargetCount(d) == target_count &&
           !reads_.ReadsNothing(d);
  });
}

// Whether the own shard consists of one box of `count` elements from each member.
bool Sharing::OwnReadsAll(int64_t count) const {
  return own_.pieces.size() == members_.size() && !own_.zero_fill &&
         std::all_of(own_.pieces.begin(), own_.pieces.end(), [&](const CopyPiece& x) { return Elements(x) == count; });
}

CopyPiece Sharing::GivenTo(int destination, const Region& box) const {
  return PieceOf(box, 0, ShardRegion(reads_.shape(), reads_.from(), source_),
                 ShardRegion(reads_.shape(), reads_.to(), destination));
}

// Whether the filled part of a box is one run of elements: for ragged rows, if they are of one group.
bool Sharing::FillsRun(const std::vector<int64_t>& extent, const std::vector<int64_t>& stride) const {
  for (int d = 0; d < rows_; ++d) {
    if (extent[d] > 1) return false;
  }
  return IsRun(extent, stride);
}

// If the own shard consists of every member's whole shard, so do shards of the same size: they are covered once, by
// boxes that are no larger.
bool Sharing::AllGather() {
  if (source_ < 0 || destination_ < 0) return false;
  const int64_t size = static_cast<int64_t>(members_.size()), count = SourceCount(source_);
  if (!OwnReadsAll(count) || !AllCount(count, size * count)) return false;
  if (std::any_of(own_.pieces.begin(), own_.pieces.end(), [](const CopyPiece& x) { return x.accumulate; }))
    return false;
  share_.call = GroupCall::kAllGather;
  share_.sends = share_.receives = true;
  // In the order of their places in the result, if these are runs; else by rank, and unpacked.
  std::vector<CopyPiece> by_place = own_.pieces;
  std::stable_sort(by_place.begin(), by_place.end(),
                   [](const CopyPiece& a, const CopyPiece& b) { return a.target_offset < b.target_offset; });
  bool in_place = true;
  for (size_t i = 0; i < by_place.size(); ++i) {
    share_.members.push_back(RankOfSource(by_place[i].source));
    in_place = in_place && IsRun(by_place[i].extent, by_place[i].target_stride) &&
               by_place[i].target_offset == static_cast<int64_t>(i) * count;
  }
  if (in_place) return true;
  share_.members = members_;
  share_.received = size * count;
  share_.unpack = own_;
  for (CopyPiece& piece : share_.unpack->pieces) {
    piece.source_offset += PositionOf(RankOfSource(piece.source)) * count;
    piece.source = 1;
  }
  return true;
}

// If the own shard is the sum of a box of each member, there are as many addends as members, and the same holds for
// shards of the same size.
bool Sharing::ReduceScatter() {
  if (source_ < 0 || destination_ < 0) return false;
  const int64_t size = static_cast<int64_t>(members_.size()), count = TargetCount(destination_);
  if (!OwnReadsAll(count) || !AllCount(size * count, count)) return false;
  for (size_t i = 0; i < own_.pieces.size(); ++i) {
    if (own_.pieces[i].accumulate != (i > 0)) return false;
  }
  share_.call = GroupCall::kReduceScatter;
  share_.sends = share_.receives = true;
  std::vector<CopyPiece> parts;  // of the own shard; each as a piece for the destination in its `source`
  for (const int d : destinations_) {
    parts.push_back(GivenTo(d, *reads_.BoxOf(d, source_)));
    parts.back().source = reads_.to().placement.ranks()[d];
  }
  // In the order of the parts' places in the shards, if these are runs; else by rank, and packed.
  std::vector<CopyPiece> by_place = parts;
  std::stable_sort(by_place.begin(), by_place.end(),
                   [](const CopyPiece& a, const CopyPiece& b) { return a.source_offset < b.source_offset; });
  bool in_place = true;
  for (size_t i = 0; i < by_place.size(); ++i) {
    share_.members.push_back(by_place[i].source);
    in_place = in_place && IsRun(by_place[i].extent, by_place[i].source_stride) &&
               by_place[i].source_offset == static_cast<int64_t>(i) * count;
  }
  if (in_place) return true;
  share_.members = members_;
  share_.packed = size * count;
  for (CopyPiece& part : parts) {
    part.target_offset += PositionOf(part.source) * count;
    part.source = 0;
  }
  share_.pack = CopyProgram{std::move(parts)};
  return true;
}

bool Sharing::Broadcast() {
  if (destinations_.empty()) return false;
  const std::vector<BoxingPiece> read = reads_.PiecesOf(destinations_[0]);
  if (read.size() != 1) return false;
  const int source = read[0].source, from = RankOfSource(source);
  const int64_t count = SourceCount(source);
  int others = 0;
  for (const int d : destinations_) {
    const std::optional<Region> box = reads_.BoxOf(d, source);
    if (!box.has_value() || box->count() != count || TargetCount(d) != count) return false;
    others += reads_.to().placement.ranks()[d] != from;
  }
  if (others < 2) return false;  // a pair has nothing to gain
  share_.call = GroupCall::kBroadcast;
  share_.members = {from};
  for (const int rank : members_) {
    if (rank != from) share_.members.push_back(rank);
  }
  share_.sends = rank_ == from;
  share_.receives = destination_ >= 0;
  return true;
}

void Sharing::Exchange() {
  share_.call = GroupCall::kExchange;
  share_.members = members_;
  share_.transfers.resize(members_.size());
  for (size_t i = 0; i < members_.size(); ++i) share_.transfers[i].peer = static_cast<int>(i);
  if (source_ >= 0) Send();
  if (destination_ >= 0) Receive();
  share_.transfers.erase(
      std::remove_if(share_.transfers.begin(), share_.transfers.end(),
                     [](const PlannedTransfer& x) { return x.send_count == 0 && x.receive_count == 0; }),
      share_.transfers.end());
}

void Sharing::Send() {
  CopyProgram pack;
  bool in_place = true;
  int64_t packed = 0;
  std::vector<PlannedTransfer> runs = share_.transfers;  // for sending in place
  // Of ragged rows, by the beginning of a box: boxes are equal or disjoint, and rows for several are packed once.
  std::map<std::vector<int64_t>, int64_t> packed_at;
  for (const int d : destinations_) {
    if (d == destination_) continue;
    const int peer = PositionOf(reads_.to().placement.ranks()[d]);
    share_.transfers[peer].send_offset = packed;
    const std::optional<Region> box = reads_.BoxOf(d, source_);
    if (!box.has_value()) continue;
    CopyPiece piece = GivenTo(d, *box);
    in_place = in_place && FillsRun(piece.extent, piece.source_stride);
    runs[peer].send_box = share_.transfers[peer].send_box =
        Within(*box, ShardRegion(reads_.shape(), reads_.from(), source_));
    runs[peer].send_offset = piece.source_offset;
    runs[peer].send_count = share_.transfers[peer].send_count = Elements(piece);
    if (rows_ >= 0) {
      const auto [at, is_new] = packed_at.try_emplace(box->start, packed);
      share_.transfers[peer].send_offset = at->second;
      if (!is_new) continue;
    }
    piece.target_offset = packed;
    piece.target_stride = Shape(piece.extent).Strides();
    packed += Elements(piece);
    pack.pieces.push_back(std::move(piece));
  }
  share_.sends = packed > 0;
  if (in_place) {
    share_.transfers = std::move(runs);
  } else {
    share_.packed = packed;
    share_.pack = std::move(pack);
  }
}

void Sharing::Receive() {
  // Received per peer; each sends one box.
  std::vector<int> from(members_.size(), -1);
  const std::vector<CopyPiece>& pieces = own_.pieces;
  bool in_place = !own_.zero_fill;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool own = RankOfSource(pieces[i].source) == rank_;
    in_place = in_place && !own && !pieces[i].accumulate && FillsRun(pieces[i].extent, pieces[i].target_stride);
    share_.unpack_reads_shard = share_.unpack_reads_shard || own;
    if (!own) from[PositionOf(RankOfSource(pieces[i].source))] = static_cast<int>(i);
  }
  CopyProgram unpack = own_;
  for (CopyPiece& piece : unpack.pieces) piece.source = 0;
  int64_t received = 0;
  for (size_t peer = 0; peer < from.size(); ++peer) {
    PlannedTransfer& transfer = share_.transfers[peer];
    transfer.receive_offset = received;
    if (from[peer] < 0) continue;
    CopyPiece& piece = unpack.pieces[from[peer]];
    if (in_place) transfer.receive_offset = piece.target_offset;
    piece.source = 1;
    piece.source_offset = received;
    piece.source_stride = Shape(piece.extent).Strides();
    transfer.receive_count = Elements(piece);
    transfer.receive_box = Within(*reads_.BoxOf(destination_, SourceOf(members_[peer])),
                                  ShardRegion(reads_.shape(), reads_.to(), destination_));
    received += Elements(piece);
  }
  share_.receives = received > 0;
  if (in_place && share_.receives) return;
  share_.received = received;
  share_.unpack = std::move(unpack);
}

}  // namespace

const char* Name(GroupCall call) {
  constexpr const char* kNames[] = {"none", "reduce-scatter", "all-gather", "broadcast", "exchange"};
  return kNames[static_cast<int>(call)];
}

std::optional<BoxingShare> ShareOf(BoxingReads& reads, int rank, int rows) { return Sharing(reads, rank, rows).Run(); }

}  // namespace oneflow
