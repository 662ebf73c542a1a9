// What it would cost if one op took another of its layouts and everything around it stayed as it is: its own compute,
// and the boxings of what it reads and makes.
//
// The figures are differences to the chosen layout. A negative one is no contradiction: selection may have had to
// prefer what an annotation keeps, or what does not move a weight.
#pragma once

#include <vector>

#include "compiler/explain/facts.h"

namespace oneflow {

struct OtherLayout {
  Layout layout;
  double seconds =
      0;              // predicted, more than the chosen layout, per step; infinite: some neighbour could not be reached
  NodeId moves = -1;  // of the placed graph: a variable that would have to be boxed for it, which selection avoids
};

// The candidates of `node` (of facts.placed) but the chosen one, cheapest first. Empty where the layout is not the
// node's own to choose: variables, what overwrites them, annotations. `costs` prices facts' topology.
std::vector<OtherLayout> OtherLayouts(const GraphFacts& facts, const OpRegistry& ops, NodeId node, CostModel& costs);

}  // namespace oneflow
