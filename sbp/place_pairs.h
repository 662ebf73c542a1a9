// Numbers for pairs of placements: one makes a tensor, the other reads it. Pairs that look alike share a number, so
// that a result for stages 3 and 4 of a pipeline also serves stages 7 and 8.
//
//   [tp=2]{0,1} -> [tp=2]{2,3}     0      hosts of 4 ranks: inside a host
//   [tp=2]{4,5} -> [tp=2]{6,7}     0      the same, two stages later
//   [tp=2]{2,3} -> [tp=2]{4,5}     1      between hosts
//
// Two pairs look alike if they have the same axes and the same relations between ranks: which ranks are equal, which
// share a process or a host, and the kind of each host. Prices and boxing paths depend on nothing else.
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
  // The first pair that got this number.
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
