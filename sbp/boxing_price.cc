#include "sbp/boxing_price.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "sbp/boxing_geometry.h"
#include "sbp/host_axes.h"
#include "sbp/lattice.h"

namespace oneflow {
namespace {

// Few enough to look at one by one, more than most hosts have devices.
constexpr int kFewDestinations = 16;

// A number of elements, in so many pieces.
struct Amount {
  int64_t elements = 0;
  int64_t pieces = 0;

  Amount operator*(const Amount& o) const { return {elements * o.elements, pieces * o.pieces}; }
  Amount operator-(const Amount& o) const { return {elements - o.elements, pieces - o.pieces}; }
  void AddTimes(int64_t times, const Amount& o) {
    elements += times * o.elements;
    pieces += times * o.pieces;
  }
};

// An axis that cuts a dimension, and which of its parts count.
struct Cut {
  int parts = 1;
  std::pair<int, int> range;
};

// What [low, high) of a dimension of `n` has in common with the parts that count, each cut further by the cuts that
// follow.
Amount Common(int64_t n, const Cut* cut, const Cut* end, int64_t low, int64_t high) {
  if (low >= high) return {};
  if (cut == end) return {high - low, 1};
  const int64_t base = n / cut->parts, longer = n % cut->parts;
  const auto part_of = [&](int64_t at) {
    const int64_t in_longer = longer * (base + 1);
    return static_cast<int>(at < in_longer ? at / (base + 1) : longer + (at - in_longer) / base);
  };
  const int first = std::max(part_of(low), cut->range.first), last = std::min(part_of(high - 1), cut->range.second - 1);
  const auto partly = [&](int part) {
    const auto [start, extent] = BalancedPart(n, cut->parts, part);
    return Common(extent, cut + 1, end, std::max<int64_t>(0, low - start), std::min(extent, high - start));
  };
  Amount sum;
  if (first > last) return sum;
  sum.AddTimes(1, partly(first));
  if (last > first) sum.AddTimes(1, partly(last));
  // Those between are wanted whole, and come in two sizes.
  const int64_t of_longer = std::clamp<int64_t>(longer - first - 1, 0, std::max(0, last - first - 1));
  const int64_t of_shorter = std::max(0, last - first - 1) - of_longer;
  if (of_longer > 0) sum.AddTimes(of_longer, Common(base + 1, cut + 1, end, 0, base + 1));
  if (of_shorter > 0) sum.AddTimes(of_shorter, Common(base, cut + 1, end, 0, base));
  return sum;
}

// Seconds and elements that one destination, or the cards of one host, need.
struct Need {
  double seconds = 0;       // of the transfers one after another
  double card_seconds = 0;  // of those between hosts, at the rate of all cards
  int64_t elements = 0;
};

class Pricer {
 public:
  Pricer(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology)
      : type_(type),
        from_(from),
        to_(to),
        topology_(topology),
        roles_(ReadRolesOf(from, to)),
        item_(static_cast<double>(SizeOf(type.dtype))) {
    sources_ = Lattice::Of(from.placement);
    if (to.placement.size() > kFewDestinations) targets_ = Lattice::Of(to.placement);
    own_.resize(from.placement.num_axes());
    start_.resize(type.shape.rank());
    extent_.resize(type.shape.rank());
  }

  StepPrice Price() {
    if (to_.placement.size() > kFewDestinations) {
      AtTheEnds(0, 0);
    } else {
      for (int index = 0; index < to_.placement.size(); ++index) Visit(index);
    }
    StepPrice price{std::max(slowest_, CardSeconds()), 0};
    price.bytes = (Few() ? elements_ : most_elements_ * NumReaders()) * static_cast<int64_t>(SizeOf(type_.dtype));
    return price;
  }

 private:
  bool Few() const { return to_.placement.size() <= kFewDestinations; }

  // Visits the destinations that are at one end or the other of every axis.
  void AtTheEnds(int axis, int index) {
    if (axis == to_.placement.num_axes()) return Visit(index);
    const int size = to_.placement.axes()[axis].size;
    AtTheEnds(axis + 1, index * size);
    if (size > 1 && !roles_.zero_of_to[axis]) AtTheEnds(axis + 1, index * size + size - 1);
  }

  void Visit(int index) {
    if (!Reads(index)) return;
    rank_ = to_.placement.ranks()[index];
    ShardRegion(type_.shape, to_, index, start_.data(), extent_.data());
    Need need;
    if (!ByArithmetic(need)) need = ByEnumeration(index);
    slowest_ = std::max(slowest_, need.seconds);
    most_elements_ = std::max(most_elements_, need.elements);
    elements_ += need.elements;
    if (need.card_seconds == 0) return;
    const int host = topology_.HostOf(rank_);
    if (Few()) {
      cards_[host] += need.card_seconds;
      card_seconds_ += need.card_seconds;
    } else {
      cards_[host] = std::max(cards_[host], need.card_seconds * ReadersOnHost());
      card_seconds_ = std::max(card_seconds_, need.card_seconds * static_cast<double>(NumReaders()));
    }
  }

  // Whether the destination reads anything; remembers its coordinates on the axes of which it reads its own.
  bool Reads(int index) {
    std::vector<int>& at = coordinates_;
    at.resize(to_.placement.num_axes());
    for (int b = to_.placement.num_axes() - 1; b >= 0; --b) {
      at[b] = index % to_.placement.axes()[b].size;
      index /= to_.placement.axes()[b].size;
      if (roles_.zero_of_to[b] && at[b] != 0) return false;
    }
    for (size_t a = 0; a < own_.size(); ++a) {
      own_[a] = roles_.of_from[a] == ReadRoles::Role::kOwn ? at[roles_.own[a]] : 0;
    }
    return true;
  }

  // What the destination can read of the sources in `box`.
  Amount Within(const CoordinateBox& box) const {
    if (Count(box) == 0) return {};
    Amount amount{1, 1};
    for (size_t a = 0; a < own_.size(); ++a) {
      if (roles_.of_from[a] == ReadRoles::Role::kOwn && (own_[a] < box[a].first || own_[a] >= box[a].second)) return {};
      const bool addends = roles_.of_from[a] == ReadRoles::Role::kAll && from_.sbp[a].is_partial();
      const int times = addends ? box[a].second - box[a].first : 1;
      amount = amount * Amount{times, times};
    }
    for (int d = 0; d < type_.shape.rank() && amount.elements > 0; ++d) amount = amount * AlongDimension(d, box);
    return amount;
  }

  Amount AlongDimension(int d, const CoordinateBox& box) const {
    absl::InlinedVector<Cut, 6> cuts;
    for (size_t a = 0; a < own_.size(); ++a) {
      if (!from_.sbp[a].is_split() || from_.sbp[a].dim() != d) continue;
      const bool own = roles_.of_from[a] == ReadRoles::Role::kOwn;
      cuts.push_back({from_.placement.axes()[a].size, own ? std::make_pair(own_[a], own_[a] + 1) : box[a]});
    }
    return Common(type_.shape[d], cuts.data(), cuts.data() + cuts.size(), start_[d], start_[d] + extent_[d]);
  }

  // The sources at most so far away hold what those nearer hold, and what is left is read from there.
  bool ByArithmetic(Need& need) {
    if (!sources_.has_value()) return false;
    Amount nearer;
    for (Distance distance : {Distance::kSelf, Distance::kProcess, Distance::kHost, Distance::kNetwork}) {
      const std::optional<CoordinateBox> box = sources_->Within(topology_.RanksWithin(distance, rank_));
      if (!box.has_value()) return false;
      const Amount all = Within(*box), more = all - nearer;
      nearer = all;
      if (more.pieces == 0) continue;
      if (distance == Distance::kSelf) continue;
      need.elements += more.elements;
      if (distance == Distance::kNetwork) return OverTheNetwork(more, need);
      const DeviceSpeeds& device = topology_.GroupOf(rank_).device;
      Add(more, distance == Distance::kProcess ? device.same_process : device.same_host, need);
    }
    return true;
  }

  // Hosts that are not alike differ in their cards.
  bool OverTheNetwork(const Amount& amount, Need& need) const {
    const int source = SourceElsewhere();
    if (!topology_.AlikeCards() || source < 0) return false;
    Add(amount, topology_.LinkBetween(source, rank_), need);
    need.card_seconds += topology_.HostBeta(source, rank_) * item_ * static_cast<double>(amount.elements);
    return true;
  }

  // A source on another host, or -1.
  int SourceElsewhere() const {
    const int host = topology_.HostOf(rank_);
    for (int rank : {from_.placement.ranks().front(), from_.placement.ranks().back()}) {
      if (topology_.HostOf(rank) != host) return rank;
    }
    return -1;
  }

  void Add(const Amount& amount, const Link& link, Need& need) const {
    need.seconds += link.alpha_s * static_cast<double>(amount.pieces) +
                    link.beta_s_per_byte * item_ * static_cast<double>(amount.elements);
  }

  // Placements that are no lattice, and hosts that cut a lattice unevenly.
  Need ByEnumeration(int index) {
    if (geometry_ == nullptr) geometry_ = std::make_unique<BoxingGeometry>(type_.shape, from_, to_, topology_);
    Need need;
    geometry_->ForEachBox(index, [&](int source, const int64_t*, const int64_t*, int64_t count) {
      const int source_rank = from_.placement.ranks()[source];
      if (source_rank == rank_) return;
      need.elements += count;
      Add({count, 1}, topology_.LinkBetween(source_rank, rank_), need);
      if (topology_.Between(source_rank, rank_) != Distance::kNetwork) return;
      need.card_seconds += topology_.HostBeta(source_rank, rank_) * item_ * static_cast<double>(count);
    });
    return need;
  }

  int64_t NumReaders() const {
    int64_t count = 1;
    for (size_t b = 0; b < roles_.zero_of_to.size(); ++b) {
      if (!roles_.zero_of_to[b]) count *= to_.placement.axes()[b].size;
    }
    return count;
  }

  // How many destinations on the current one's host read.
  double ReadersOnHost() const {
    const auto [first, end] = topology_.RanksWithin(Distance::kHost, rank_);
    const std::optional<CoordinateBox> box =
        targets_.has_value() ? targets_->Within({first, end}) : std::optional<CoordinateBox>();
    if (!box.has_value()) return static_cast<double>(std::min<int64_t>(end - first, NumReaders()));
    int64_t count = 1;
    for (size_t b = 0; b < roles_.zero_of_to.size(); ++b) {
      if (!roles_.zero_of_to[b]) count *= (*box)[b].second - (*box)[b].first;
    }
    return static_cast<double>(count);
  }

  // The busiest cards: what comes into a host, or what leaves one.
  double CardSeconds() const {
    if (card_seconds_ == 0) return 0;
    double busiest = card_seconds_ / static_cast<double>(NumGivers());
    for (const auto& [host, seconds] : cards_) busiest = std::max(busiest, seconds);
    return busiest;
  }

  // How many hosts give: those of the first copies, which are what ranks of other hosts read.
  int64_t NumGivers() const {
    int64_t sources = 1, on_host = 1;
    for (size_t a = 0; a < own_.size(); ++a) {
      if (roles_.of_from[a] != ReadRoles::Role::kReplica) sources *= from_.placement.axes()[a].size;
    }
    for (int rank : {from_.placement.ranks().front(), from_.placement.ranks().back()}) {
      const std::optional<int64_t> count = SourcesOnHostOf(rank);
      if (!count.has_value()) return HostsOfSources();
      on_host = std::max(on_host, *count);
    }
    return (sources + on_host - 1) / on_host;
  }

  // The same where hosts do not cut the sources into boxes: counted.
  int64_t HostsOfSources() const {
    std::set<int> hosts;
    for (int i = 0; i < from_.placement.size(); ++i) {
      const std::vector<int> at = from_.placement.Coordinates(i);
      bool gives = true;
      for (size_t a = 0; a < at.size(); ++a) {
        gives = gives && (at[a] == 0 || roles_.of_from[a] != ReadRoles::Role::kReplica);
      }
      if (gives) hosts.insert(topology_.HostOf(from_.placement.ranks()[i]));
    }
    return static_cast<int64_t>(hosts.size());
  }

  std::optional<int64_t> SourcesOnHostOf(int rank) const {
    if (!sources_.has_value()) return std::nullopt;
    const std::optional<CoordinateBox> box = sources_->Within(topology_.RanksWithin(Distance::kHost, rank));
    if (!box.has_value()) return std::nullopt;
    int64_t count = 1;
    for (size_t a = 0; a < own_.size(); ++a) {
      if (roles_.of_from[a] != ReadRoles::Role::kReplica) count *= (*box)[a].second - (*box)[a].first;
    }
    return count;
  }

  const TensorType& type_;
  const DistType& from_;
  const DistType& to_;
  const Topology& topology_;
  const ReadRoles roles_;
  const double item_;  // bytes
  std::optional<Lattice> sources_, targets_;
  std::unique_ptr<BoxingGeometry> geometry_;

  // The destination in hand.
  int rank_ = 0;
  std::vector<int> coordinates_, own_;
  std::vector<int64_t> start_, extent_;

  double slowest_ = 0;
  int64_t most_elements_ = 0, elements_ = 0;
  std::map<int, double> cards_;  // seconds of what comes in, by host
  double card_seconds_ = 0;      // of all that comes in anywhere
};

}  // namespace

int64_t BucketBytes(const Placement& from, const Placement& to, const Topology& topology) {
  Link slowest;
  for (const int a : {from.ranks().front(), from.ranks().back()}) {
    for (const int b : {to.ranks().front(), to.ranks().back()}) {
      const Link link = topology.LinkBetween(a, b);
      if (link.beta_s_per_byte > slowest.beta_s_per_byte) slowest = link;
    }
  }
  if (slowest.beta_s_per_byte <= 0) return 0;
  return static_cast<int64_t>(kBucketTimes * (slowest.alpha_s + topology.device().act_s) / slowest.beta_s_per_byte);
}

StepPrice PriceOf(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology) {
  const auto common = OnCommonAxes(type.shape, from, to);
  return (common.has_value() ? Pricer(type, common->first, common->second, topology) : Pricer(type, from, to, topology))
      .Price();
}

}  // namespace oneflow
