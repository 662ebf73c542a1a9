// Pairs of placements, the one that makes a tensor and the one that reads it, numbered such that pairs which look alike
// have one number: whatever is worked out for stages 3 and 4 of a pipeline holds for stages 7 and 8.
//
//   [tp=2]{0,1} -> [tp=2]{2,3}     0      hosts of 4 ranks: inside a host
//   [tp=2]{4,5} -> [tp=2]{6,7}     0      the same, two stages later
//   [tp=2]{2,3} -> [tp=2]{4,5}     1      between hosts
//
// Two pairs look alike if their axes are the same, and their ranks are so but for numbers: which of them are one rank,
// of one process, of one host, and on which kind of host. No price and no way from one type to another depends on more.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/mesh.h"
#include "sbp/topology.h"

namespace oneflow {

class PlacePairs {
 public:
  // Borrows the topology.
  explicit PlacePairs(const Topology& topology) : topology_(topology) {}

  // The number of a placement; equal ones have the same.
  int Number(const Placement& placement);
  int num_places() const { return static_cast<int>(places_.size()); }
  const Placement& place(int number) const { return places_[number]; }
  // The number of the pair of two numbered placements.
  int Pair(int from, int to);
  // Of all pairs of that number the first that was asked for.
  const Placement& from(int pair) const { return places_[firsts_[pair].first]; }
  const Placement& to(int pair) const { return places_[firsts_[pair].second]; }

 private:
  std::vector<int64_t> Describe(const Placement& from, const Placement& to) const;

  const Topology& topology_;
  std::vector<Placement> places_;
  std::map<std::pair<int, int>, std::vector<int>> starting_at_;  // by first rank and size: numbers of placements
  std::map<std::pair<int, int>, int> pairs_;                     // of numbers of placements
  std::map<std::pair<std::string, std::vector<int64_t>>, int> alike_;
  std::vector<std::pair<int, int>> firsts_;
};

}  // namespace oneflow
