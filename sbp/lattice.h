// Placements whose ranks are base + sum of stride * coordinate. All placements of a mesh are such. Arithmetic, not a
// search, says which of their coordinates lie in a process or a host.
//
//   [dp=4,tp=2]{0..7}, hosts of 4 ranks     strides 2, 1; the host of rank 5 has dp 2-3 and all of tp
#pragma once

#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "oneflow_core/mesh.h"

namespace oneflow {

// One range of coordinates [first, second) per axis; no coordinates if one of them is empty.
using CoordinateBox = absl::InlinedVector<std::pair<int, int>, 6>;

// How many coordinates a box has.
int64_t Count(const CoordinateBox& box);

class Lattice {
 public:
  // Nothing unless ranks ascend with every coordinate, and each stride is greater than the largest sum of the smaller
  // ones. Linear in ranks.
  static std::optional<Lattice> Of(const Placement& placement);

  // The coordinates of the ranks in [first, end); the box may be empty. Nothing if they do not form a box.
  std::optional<CoordinateBox> Within(std::pair<int, int> ranks) const;

 private:
  struct Digit {
    int axis = 0, size = 1, stride = 1;
    int64_t block = 1;  // points that share this digit and those before it
  };

  // How many of the ranks are less than `rank`.
  int64_t CountBelow(int rank) const;

  int base_ = 0;
  int num_axes_ = 0;
  absl::InlinedVector<Digit, 6> digits_;  // axes of more than one coordinate, largest stride first
};

}  // namespace oneflow
