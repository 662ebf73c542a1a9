// Groups of the numbers 0 .. n-1 that grow together. Each group goes by its lowest number, whatever the order of
// unions, so that what is done by group is done in an order that depends on the groups alone.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

namespace oneflow {

class UnionFind {
 public:
  // Every number by itself.
  explicit UnionFind(int n) : towards_(n) { std::iota(towards_.begin(), towards_.end(), 0); }

  // The lowest number of the group of `x`.
  int Find(int x) {
    while (towards_[x] != x) x = towards_[x] = towards_[towards_[x]];
    return x;
  }
  void Unite(int a, int b) {
    a = Find(a), b = Find(b);
    towards_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<int> towards_;  // a lower number of the same group; of the lowest itself
};

}  // namespace oneflow
