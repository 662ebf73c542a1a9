// Which of a variable's equal copies is written when it is saved: every rank that holds copies of the same variables
// gets about as many bytes of them to write.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"

namespace oneflow {

// The copy at ranks()[index] of the placement, of the NumCopies() that there are of each shard.
int NumCopies(const DistType& dist);
int CopyAt(const DistType& dist, int index);

// Asked for all variables of a job in their order, and says the same to everyone.
class Owners {
 public:
  // The copy of the next variable that is written.
  int Next(const TensorType& type, const DistType& dist);

  // The most that a rank at one of these variables' places writes of them: `fn(placement, bytes)` for each placement.
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
