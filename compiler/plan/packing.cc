#include "compiler/plan/packing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace oneflow {
namespace {

// Claims by the times of each class; a time is a run of ticks.
class Calendar {
 public:
  explicit Calendar(const std::vector<Clock>& clocks) {
    for (const Clock& clock : clocks) {
      width_.push_back((clock.num_ticks + kRuns - 1) / kRuns);
      runs_.emplace_back((clock.num_ticks + width_.back() - 1) / width_.back());
    }
  }

  void Add(int id, const Claim& claim) {
    for (const Ticks& ticks : claim.when) {
      const int width = width_[ticks.rank_class];
      std::vector<Run>& runs = runs_[ticks.rank_class];
      runs[ticks.first / width].begun.push_back(id);
      for (int run = ticks.first / width; run <= ticks.last / width; ++run) runs[run].in_use.push_back(id);
    }
  }
  // Calls visit(id) for all claims that may be in use at the same time as `claim`, some of them more than once.
  template <typename Visit>
  void ForEachNear(const Claim& claim, Visit&& visit) const {
    for (const Ticks& ticks : claim.when) {
      const int width = width_[ticks.rank_class];
      const std::vector<Run>& runs = runs_[ticks.rank_class];
      for (const int id : runs[ticks.first / width].in_use) visit(id);
      for (int run = ticks.first / width + 1; run <= ticks.last / width; ++run) {
        for (const int id : runs[run].begun) visit(id);
      }
    }
  }

 private:
  struct Run {
    std::vector<int> in_use, begun;
  };
  static constexpr int kRuns = 256;
  std::vector<int> width_;  // ticks of a run
  std::vector<std::vector<Run>> runs_;
};

// The first free offset of `size` bytes beside the taken runs [begin, end), in any order. At a taken run the search
// moves behind it, until it has passed all runs without a conflict: two or three passes where runs are in the order of
// their making. Runs in a worse order are sorted.
int64_t FirstFit(std::vector<std::pair<int64_t, int64_t>>& taken, int64_t size) {
  constexpr int kMostRounds = 6;
  int64_t offset = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    const int64_t before = offset;
    for (const auto& [begin, end] : taken) {
      if (begin < offset + size && offset < end) offset = end;
    }
    if (offset == before) return offset;
  }
  std::sort(taken.begin(), taken.end());
  for (const auto& [begin, end] : taken) {
    if (offset + size <= begin) break;
    offset = std::max(offset, end);
  }
  return offset;
}

class Packer {
 public:
  Packer(absl::Span<const Claim> claims, const std::vector<Clock>& clocks)
      : claims_(claims), calendar_(clocks), seen_(claims.size(), -1) {
    packing_.offsets.resize(claims.size());
    packing_.num_bytes.resize(clocks.size());
  }

  Packing PackInOrder(const std::vector<int>& order) {
    for (const int id : order) Place(id);
    return std::move(packing_);
  }

 private:
  void Place(int id) {
    const Claim& claim = claims_[id];
    const int64_t size = claim.room();
    taken_.clear();
    calendar_.ForEachNear(claim, [&](int other) {
      if (std::exchange(seen_[other], id) == id || !Meet(claim, claims_[other])) return;
      taken_.push_back({packing_.offsets[other], packing_.offsets[other] + claims_[other].room()});
    });
    const int64_t offset = FirstFit(taken_, size);
    packing_.offsets[id] = offset;
    for (const Ticks& ticks : claim.when) {
      packing_.num_bytes[ticks.rank_class] = std::max(packing_.num_bytes[ticks.rank_class], offset + size);
    }
    if (size > 0) calendar_.Add(id, claim);
  }

  const absl::Span<const Claim> claims_;
  Calendar calendar_;
  std::vector<int> seen_;  // by claim: the claim for which it was last visited
  std::vector<std::pair<int64_t, int64_t>> taken_;
  Packing packing_;
};

// Memory that is allocated and freed over time; the best fit is taken.
class FreeList {
 public:
  int64_t Take(int64_t size) {
    const auto fit = by_size_.lower_bound({size, 0});
    if (fit == by_size_.end()) return Grow(size);
    const auto [room, begin] = *fit;
    Remove(begin);
    if (room > size) Insert(begin + size, room - size);
    return begin;
  }
  void Give(int64_t begin, int64_t size) {
    auto next = by_begin_.lower_bound(begin);
    if (next != by_begin_.end() && next->first == begin + size) {
      size += next->second;
      next = Remove(next->first);
    }
    if (next != by_begin_.begin()) {
      const auto [before, room] = *std::prev(next);
      if (before + room == begin) {
        Remove(before);
        begin = before;
        size += room;
      }
    }
    Insert(begin, size);
  }
  int64_t end() const { return end_; }

 private:
  // At the end, including the free memory there.
  int64_t Grow(int64_t size) {
    int64_t begin = end_;
    if (!by_begin_.empty()) {
      const auto [last, room] = *by_begin_.rbegin();
      if (last + room == end_) {
        Remove(last);
        begin = last;
      }
    }
    end_ = begin + size;
    return begin;
  }
  void Insert(int64_t begin, int64_t size) {
    by_begin_.emplace(begin, size);
    by_size_.emplace(size, begin);
  }
  std::map<int64_t, int64_t>::iterator Remove(int64_t begin) {
    const auto it = by_begin_.find(begin);
    by_size_.erase({it->second, begin});
    return by_begin_.erase(it);
  }

  std::map<int64_t, int64_t> by_begin_;  // sizes
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

// Packs by going through time, class by class, n log n. Claims in several classes, or in use twice, lie below all
// others, as if in use all the time. So do the workspaces of acts that the clock does not place, all on the same bytes.
class TimePacker {
 public:
  TimePacker(absl::Span<const Claim> claims, const std::vector<Clock>& clocks)
      : claims_(claims), by_class_(clocks.size()) {
    packing_.offsets.resize(claims.size());
    packing_.num_bytes.resize(clocks.size());
  }

  Packing Run() {
    std::vector<Claim> below;
    std::vector<int> ids;
    for (size_t i = 0; i < claims_.size(); ++i) {
      const Claim& claim = claims_[i];
      const bool placed = claim.actor < 0 || std::all_of(claim.when.begin(), claim.when.end(),
                                                         [](const Ticks& ticks) { return ticks.certain; });
      if (claim.when.size() == 1 && placed) {
        by_class_[claim.when[0].rank_class].push_back(static_cast<int>(i));
        continue;
      }
      below.push_back(claim);
      for (Ticks& ticks : below.back().when) ticks = {ticks.rank_class, 0, 0, ticks.certain};
      ids.push_back(static_cast<int>(i));
    }
    PackBelow(below, ids);
    for (size_t c = 0; c < by_class_.size(); ++c) PackClass(static_cast<int>(c));
    return std::move(packing_);
  }

 private:
  // Workspaces of each actor first, then all lasting claims, one behind the other.
  void PackBelow(const std::vector<Claim>& below, const std::vector<int>& ids) {
    std::map<int, std::vector<int>> of_actor;
    for (size_t i = 0; i < below.size(); ++i) {
      if (below[i].actor >= 0) of_actor[below[i].actor].push_back(static_cast<int>(i));
    }
    for (const auto& [actor, members] : of_actor) {
      std::vector<Claim> lives;
      for (const int i : members) lives.push_back({below[i].num_bytes, {{0, below[i].first, below[i].last}}});
      const int num_ticks =
          1 + std::max_element(lives.begin(), lives.end(),
                               [](const Claim& a, const Claim& b) { return a.when[0].last < b.when[0].last; })
                  ->when[0]
                  .last;
      const Packing inside = Pack(lives, {Clock{num_ticks, {}}});
      for (size_t k = 0; k < members.size(); ++k) Put(ids[members[k]], inside.offsets[k]);
    }
    for (size_t i = 0; i < below.size(); ++i) {
      if (below[i].actor >= 0) continue;
      int64_t offset = 0;
      for (const Ticks& ticks : below[i].when) offset = std::max(offset, packing_.num_bytes[ticks.rank_class]);
      Put(ids[i], offset);
    }
  }

  void Put(int id, int64_t offset) {
    packing_.offsets[id] = offset;
    for (const Ticks& ticks : claims_[id].when) {
      int64_t& end = packing_.num_bytes[ticks.rank_class];
      end = std::max(end, offset + claims_[id].room());
    }
  }

  void PackClass(int c) {
    std::vector<int> begins = by_class_[c], ends = by_class_[c];
    const auto first = [&](int id) { return claims_[id].when[0].first; };
    const auto last = [&](int id) { return claims_[id].when[0].last; };
    std::stable_sort(begins.begin(), begins.end(), [&](int a, int b) {
      return std::make_pair(first(a), -claims_[a].num_bytes) < std::make_pair(first(b), -claims_[b].num_bytes);
    });
    std::stable_sort(ends.begin(), ends.end(), [&](int a, int b) { return last(a) < last(b); });
    const int64_t base = packing_.num_bytes[c];
    FreeList free;
    size_t ended = 0;
    for (const int id : begins) {
      for (; ended < ends.size() && last(ends[ended]) < first(id); ++ended) {
        const int64_t size = claims_[ends[ended]].room();
        if (size > 0) free.Give(packing_.offsets[ends[ended]] - base, size);
      }
      const int64_t size = claims_[id].room();
      Put(id, base + (size > 0 ? free.Take(size) : 0));
    }
  }

  const absl::Span<const Claim> claims_;
  std::vector<std::vector<int>> by_class_;
  Packing packing_;
};

using Key = std::function<double(int)>;

// Descending; ties by number.
std::vector<int> OrderBy(size_t n, const Key& key) {
  std::vector<double> keys(n);
  for (size_t i = 0; i < n; ++i) keys[i] = key(static_cast<int>(i));
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] > keys[b]; });
  return order;
}

// The greatest part by which a class exceeds its bound.
double Gap(const Packing& packing, const std::vector<int64_t>& bound) {
  double gap = 0;
  for (size_t c = 0; c < bound.size(); ++c) {
    if (bound[c] > 0) gap = std::max(gap, static_cast<double>(packing.num_bytes[c] - bound[c]) / bound[c]);
  }
  return gap;
}

int64_t NumTicks(const Claim& claim) {
  int64_t ticks = 0;
  for (const Ticks& x : claim.when) ticks = std::max<int64_t>(ticks, x.last - x.first + 1);
  return ticks;
}

// The most bytes in an actor's workspace at one instruction.
std::pair<int64_t, int> WorkspacePeak(const std::vector<const Claim*>& workspace) {
  std::map<int, int64_t> change;
  for (const Claim* claim : workspace) {
    change[claim->first] += claim->room();
    change[claim->last + 1] -= claim->room();
  }
  int64_t in_use = 0;
  std::pair<int64_t, int> peak(0, 0);
  for (const auto& [instruction, delta] : change) {
    in_use += delta;
    if (in_use > peak.first) peak = {in_use, instruction};
  }
  return peak;
}

// Only the bound and its time.
Packing Bound(absl::Span<const Claim> claims, const std::vector<Clock>& clocks) {
  std::vector<std::vector<int64_t>> lasting, in_use;  // by class and tick: without workspaces, and with them
  for (const Clock& clock : clocks) lasting.emplace_back(clock.num_ticks + 1, 0);
  in_use = lasting;
  std::map<int, std::vector<const Claim*>> unplaced;  // workspaces of acts that the clock does not place, by actor
  for (const Claim& claim : claims) {
    for (const Ticks& ticks : claim.when) {
      if (claim.actor >= 0 && !ticks.certain) continue;
      for (auto* const changes : {&lasting, &in_use}) {
        if (changes == &lasting && claim.actor >= 0) continue;
        (*changes)[ticks.rank_class][ticks.first] += claim.room();
        (*changes)[ticks.rank_class][ticks.last + 1] -= claim.room();
      }
    }
    const bool placed = std::all_of(claim.when.begin(), claim.when.end(), [](const Ticks& x) { return x.certain; });
    if (claim.actor >= 0 && !placed) unplaced[claim.actor].push_back(&claim);
  }
  for (auto* const changes : {&lasting, &in_use}) {
    for (std::vector<int64_t>& of : *changes) std::partial_sum(of.begin(), of.end(), of.begin());
  }
  std::vector<std::map<int, Packing::Fullest>> fills(clocks.size());  // by class: the gaps that an act fills
  for (const auto& [actor, workspace] : unplaced) {
    const auto [peak, instruction] = WorkspacePeak(workspace);
    for (const Ticks& ticks : workspace[0]->when) {
      const std::vector<int>& gaps = clocks[ticks.rank_class].gaps;
      if (ticks.certain) continue;
      for (auto gap = std::lower_bound(gaps.begin(), gaps.end(), ticks.first); gap != gaps.end() && *gap <= ticks.last;
           ++gap) {
        int64_t& most = in_use[ticks.rank_class][*gap];
        const int64_t with = lasting[ticks.rank_class][*gap] + peak;
        if (with <= most) continue;
        most = with;
        fills[ticks.rank_class][*gap] = {*gap, actor, instruction};
      }
    }
  }
  Packing result;
  for (size_t c = 0; c < in_use.size(); ++c) {
    const auto most = std::max_element(in_use[c].begin(), in_use[c].end());
    const int tick = static_cast<int>(most - in_use[c].begin());
    const auto fill = fills[c].find(tick);
    result.bound.push_back(*most);
    result.fullest.push_back(fill == fills[c].end() ? Packing::Fullest{tick} : fill->second);
  }
  return result;
}

// A packing this close to its bound, as a part of it, is not improved; nor is one after so many tries, or after so many
// comparisons of claims.
constexpr double kEnough = 0.005;
constexpr int kMovesToFront = 8;
constexpr int kMostTries = 300;
constexpr double kMostLooks = 1e7;
// Memory that is allocated as time goes on, and takes so much more than its bound, is packed once more where that takes
// no more comparisons: a second or two.
constexpr double kTooMuch = 0.05, kMostLooksOnce = 4e8;

// An estimate of the comparisons of all claims.
double NumNear(absl::Span<const Claim> claims, const std::vector<Clock>& clocks) {
  std::vector<double> weight(clocks.size(), 0), number(clocks.size(), 0);
  for (const Claim& claim : claims) {
    for (const Ticks& ticks : claim.when) {
      weight[ticks.rank_class] +=
          static_cast<double>(ticks.last - ticks.first + 1) / clocks[ticks.rank_class].num_ticks;
      ++number[ticks.rank_class];
    }
  }
  double near = 0;
  for (size_t c = 0; c < number.size(); ++c) near += weight[c] * number[c];
  return near;
}

// The claims that reach the end of the class that is farthest above its bound.
std::vector<int> Top(absl::Span<const Claim> claims, const Packing& packing, const std::vector<int64_t>& bound) {
  const double gap = Gap(packing, bound);
  std::vector<bool> worst(bound.size());
  for (size_t c = 0; c < bound.size(); ++c) worst[c] = packing.num_bytes[c] - bound[c] >= gap * bound[c];
  std::vector<int> top;
  for (size_t i = 0; i < claims.size(); ++i) {
    const int64_t end = packing.offsets[i] + claims[i].room();
    const bool reaches = std::any_of(claims[i].when.begin(), claims[i].when.end(), [&](const Ticks& ticks) {
      return worst[ticks.rank_class] && end == packing.num_bytes[ticks.rank_class];
    });
    if (reaches && claims[i].num_bytes > 0) top.push_back(static_cast<int>(i));
  }
  return top;
}

void MoveToFront(const std::vector<int>& some, std::vector<int>& order) {
  std::stable_partition(order.begin(), order.end(),
                        [&](int id) { return std::binary_search(some.begin(), some.end(), id); });
}

}  // namespace

bool Meet(const Claim& a, const Claim& b) {
  if (a.actor >= 0 && b.actor >= 0) return a.actor == b.actor && a.first <= b.last && b.first <= a.last;
  size_t begin = 0;  // in b, of the current class
  for (const Ticks& x : a.when) {
    while (begin < b.when.size() && b.when[begin].rank_class < x.rank_class) ++begin;
    for (size_t i = begin; i < b.when.size() && b.when[i].rank_class == x.rank_class; ++i) {
      if (x.first <= b.when[i].last && b.when[i].first <= x.last) return true;
    }
  }
  return false;
}

std::vector<int64_t> MostInUse(absl::Span<const Claim> claims, const std::vector<Clock>& clocks) {
  return Bound(claims, clocks).bound;
}

Packing Pack(absl::Span<const Claim> claims, const std::vector<Clock>& clocks) {
  const auto size = [&](int id) { return static_cast<double>(claims[id].num_bytes); };
  const auto area = [&](int id) { return size(id) * NumTicks(claims[id]); };
  const Packing bounds = Bound(claims, clocks);
  const double near = NumNear(claims, clocks);
  if (near > kMostLooks) {
    Packing packing = TimePacker(claims, clocks).Run();
    for (const Key& key : {Key(size), Key(area)}) {
      if (near > kMostLooksOnce || Gap(packing, bounds.bound) <= kTooMuch) break;
      Packing other = Packer(claims, clocks).PackInOrder(OrderBy(claims.size(), key));
      if (Gap(other, bounds.bound) < Gap(packing, bounds.bound)) packing = std::move(other);
    }
    packing.bound = bounds.bound;
    packing.fullest = bounds.fullest;
    return packing;
  }
  Packing best;
  double least = std::numeric_limits<double>::infinity();
  const auto try_order = [&](const std::vector<int>& order) {
    Packing packing = Packer(claims, clocks).PackInOrder(order);
    const std::vector<int> top = Top(claims, packing, bounds.bound);
    const double gap = Gap(packing, bounds.bound);
    if (gap < least) {
      best = std::move(packing);
      least = gap;
    }
    return top;
  };
  // The longest lasting at the bottom, where they leave no holes.
  const auto lasting = [&](int id) { return NumTicks(claims[id]) + size(id) / 1e18; };
  int tries = 0;
  const auto enough = [&] { return least <= kEnough || (tries > 0 && tries * near > kMostLooks); };
  for (const Key& key : {Key(size), Key(area), Key(lasting)}) {
    std::vector<int> order = OrderBy(claims.size(), key);
    for (int improved = 0; improved < kMovesToFront && !enough(); ++improved, ++tries) {
      MoveToFront(try_order(order), order);
    }
  }
  // Slightly different sizes lead to other orders.
  std::mt19937 random(1);
  while (!enough() && tries < kMostTries) {
    const auto about = [&](int id) { return size(id) * (1 + 0.5 * (random() % 1024) / 1024); };
    std::vector<int> order = OrderBy(claims.size(), about);
    MoveToFront(try_order(order), order);
    MoveToFront(try_order(order), order);
    tries += 2;
  }
  best.bound = bounds.bound;
  best.fullest = bounds.fullest;
  return best;
}

}  // namespace oneflow
