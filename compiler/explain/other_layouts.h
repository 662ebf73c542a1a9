// The cost if one op took another of its layouts and everything around it stayed: its own compute, and the boxings of
// its inputs and outputs.
//
// The figures are differences to the chosen layout. A negative one is no contradiction: selection may have had to
// prefer a layout that an annotation keeps, or one that moves no weight.
#pragma once

#include <vector>

#include "compiler/explain/facts.h"

namespace oneflow {

struct OtherLayout {
  Layout layout;
  double seconds =
      0;              // predicted, more than the chosen layout, per step; infinite: some neighbour could not be reached
  NodeId moves = -1;  // of the placed graph: a variable that would have to be boxed for it; selection avoids that
};

// The candidates of `node` (of facts.placed) except the chosen one, cheapest first. Empty where the node does not
// choose its layout: variables, ops that overwrite them, annotations. `costs` prices facts' topology.
std::vector<OtherLayout> OtherLayouts(const GraphFacts& facts, const OpRegistry& ops, NodeId node, CostModel& costs);

}  // namespace oneflow
