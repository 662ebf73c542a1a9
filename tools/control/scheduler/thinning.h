// Which events of a job are no longer worth keeping: a curve of 10^9 steps is kept as one of some hundred points.
//
// Of each series - what training fetches under one name, by step; parts of one kind, by number, an evaluation with all
// that it fetched being one - the last kLastKept are kept, and of the earlier ones the first of each of at most
// kStretches equal stretches. Stretches are powers of two long and begin at multiples of that, so that who thins often
// keeps what one who thins once would. An attempt that goes back to an earlier step begins a series of its own. All
// else is kept: states, notices, stalls.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/control.pb.h"

namespace oneflow {

inline constexpr int64_t kLastKept = 256;
inline constexpr int64_t kStretches = 512;

// Takes the events of a job in order.
class Thinning {
 public:
  void Add(const pb::JobEvent& event);
  // The sequences of those that are not to be kept, ascending.
  std::vector<int64_t> Superfluous() const;

 private:
  struct Item {
    int64_t index;                   // step or number of a part
    std::vector<int64_t> sequences;  // of all its events
  };
  void AddTo(const std::string& series, Item item);

  // By name, and how often its index went back.
  std::map<std::pair<std::string, int>, std::vector<Item>> series_;
  std::map<std::string, int> turns_;      // of each name, so far
  std::vector<int64_t> of_current_part_;  // what came since the last part's end
};

}  // namespace oneflow
