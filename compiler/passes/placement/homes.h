// A variable has one home, which all plans of a job share. A plan on another mesh reads it through a `to` on that mesh:
// the boxing to it brings the value there once per step, whoever reads it, and the user's annotation of the variable is
// said of it, so that a weight asked to be split over "tp" is split over this mesh's "tp".
#pragma once

#include "compiler/passes/placement/places.h"

namespace oneflow {

// Gives every place that reads a variable from elsewhere such a `to`. What overwrites the variable lies at its home and
// reads it there.
//
//   before   w@{0,1} {tp:S(0)} -> matmul@{2,3}        after   w@{0,1} -> to@{2,3} {tp:S(0)} -> matmul@{2,3}
//                              -> update@{0,1}                        -> update@{0,1}
//
// REQUIRES: all nodes have places.
void ReadFromHomes(Places& places);

}  // namespace oneflow
