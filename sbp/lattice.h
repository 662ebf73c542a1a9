// Placements whose ranks are base + sum of stride * coordinate, as all are that a mesh gives: which of their
// coordinates lie among the ranks of a process or a host is arithmetic, not a search.
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
  // Nothing unless the ranks ascend with every coordinate and each stride exceeds all that smaller strides add up to.
  // Looks at every rank once.
  static std::optional<Lattice> Of(const Placement& placement);

  // The coordinates whose ranks are in [first, end), which may be none; nothing if they are no box.
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
