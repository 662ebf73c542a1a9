// Future events on a virtual clock: the earliest first, and events of one time in the order in which they were added.
// Many events share a time where ranks are alike, so times are sorted and not events. Takes as much memory as was ever
// needed at once.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace oneflow {

template <typename Thing>
class Agenda {
 public:
  // REQUIRES: `ns` is not before the time of the last taken event.
  void Add(int64_t ns, const Thing& thing) {
    const int32_t entry = NewEntry(thing);
    if (ns == now_) return Append(entry, of_now_);
    const auto [it, is_new] = later_.try_emplace(ns);
    if (is_new) times_.push(ns);
    Append(entry, it->second);
  }

  bool empty() const { return of_now_.first < 0 && times_.empty(); }
  // The time of the first event. REQUIRES: not empty.
  int64_t next_ns() const { return of_now_.first >= 0 ? now_ : times_.top(); }

  // REQUIRES: not empty.
  Thing Take() {
    if (of_now_.first < 0) GoOn();
    const int32_t entry = of_now_.first;
    of_now_.first = entries_[entry].next;
    entries_[entry].next = free_;
    free_ = entry;
    return entries_[entry].thing;
  }

 private:
  struct Entry {
    Thing thing;
    int32_t next = -1;  // of the same time, or of the free entries
  };
  struct Chain {
    int32_t first = -1, last = -1;
  };

  int32_t NewEntry(const Thing& thing) {
    if (free_ < 0) {
      entries_.push_back({thing});
      return static_cast<int32_t>(entries_.size() - 1);
    }
    const int32_t entry = std::exchange(free_, entries_[free_].next);
    entries_[entry] = {thing};
    return entry;
  }

  void Append(int32_t entry, Chain& chain) {
    (chain.first < 0 ? chain.first : entries_[chain.last].next) = entry;
    chain.last = entry;
  }

  void GoOn() {
    now_ = times_.top();
    times_.pop();
    const auto it = later_.find(now_);
    of_now_ = it->second;
    later_.erase(it);
  }

  int64_t now_ = -1;
  Chain of_now_;
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> times_;  // of later_
  absl::flat_hash_map<int64_t, Chain> later_;
  std::vector<Entry> entries_;
  int32_t free_ = -1;
};

}  // namespace oneflow
