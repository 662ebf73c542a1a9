// A variable has one home, which all plans of a job share. A plan on another mesh reads it through a `to` on that mesh.
// The boxing to it brings the value there once per step, for all readers. The user's annotation of the variable applies
// to the `to`: a weight annotated as split over "tp" is split over this mesh's "tp".
#pragma once

#include "compiler/passes/placement/places.h"

namespace oneflow {

// Gives every place that reads a variable from elsewhere such a `to`. Nodes that overwrite the variable lie at its home
// and read it there.
//
//   before   w@{0,1} {tp:S(0)} -> matmul@{2,3}        after   w@{0,1} -> to@{2,3} {tp:S(0)} -> matmul@{2,3}
//                              -> update@{0,1}                        -> update@{0,1}
//
// REQUIRES: all nodes have places.
void ReadFromHomes(Places& places);

}  // namespace oneflow
