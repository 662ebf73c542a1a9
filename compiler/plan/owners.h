// Which of the equal copies of a variable is written when it is saved. Ranks that hold copies of the same variables
// write about as many bytes each.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"

namespace oneflow {

// The number of copies of each shard.
int NumCopies(const DistType& dist);
int CopyAt(const DistType& dist, int index);

// Of a tensor that ranks have of their own along an axis, P(mean): how many there are, and which one lies at a place.
struct OwnPart {
  int count = 0;  // 0: it is no such tensor
  int index = 0;
};
OwnPart OwnPartAt(const DistType& dist, int index);

// Asked for all variables of a job in order; gives the same answers everywhere.
class Owners {
 public:
  // The copy of the next variable that is written.
  int Next(const TensorType& type, const DistType& dist);

  // The most bytes that a rank at the places of these variables writes: `fn(placement, bytes)` for each placement.
  template <typename Fn>
  void ForEachLoad(const Fn& fn) const {
    for (const auto& [key, load] : loads_) fn(load.placement, load.Most());
  }

 private:
  struct Load {
    Placement placement;
    std::vector<int64_t> bytes;  // by copy
    int64_t Most() const;
  };

  std::map<std::pair<int, int>, Load> loads_;  // by first rank and number of copies
};

}  // namespace oneflow
