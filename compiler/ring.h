// Rings of ranks that compute attention in parts: which part is computed in which step, by whom. The algorithm is that
// of passes/ring_attention.cc; selection prices it by the same parts.
#pragma once

#include <vector>

#include "compiler/node_view.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/op.h"

namespace oneflow {

// In a step of a ring every rank attends to keys by queries of which one side has come from `step` ranks before.
struct RingPart {
  int step = 0;
  RingSide moves = RingSide::kKeys;  // the side that comes
  int share = 0;                     // of the heads: 0 all, 1 and 2 the halves
};

// The axes of the placement along which queries and keys of an op lie split by tokens; none if it knows no rings.
std::vector<int> RingAxes(const OpDef& op, const Layout& layout, const Placement& placement);

// What is computed beside each rank's own queries and keys, where the ranks along `axes` are a ring. REQUIRES: the op
// knows rings.
std::vector<RingPart> PartsOfRing(const NodeView& node, const std::vector<int>& axes);

// The same ranks, each with the part of the one that is `by` places before it in the ring along `axes`, of which the
// last is the fastest.
Placement Turned(const Placement& placement, const std::vector<int>& axes, int by);

}  // namespace oneflow
