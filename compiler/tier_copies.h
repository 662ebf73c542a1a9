// Copies between tiers of memory (oneflow_core/tiers.h), as passes add them, and the units in which they travel.
#pragma once

#include <string>
#include <vector>

#include "oneflow_core/graph.h"
#include "oneflow_core/tiers.h"

namespace oneflow {

enum class TierCopy : uint8_t {
  kLoad,   // input 0 lies in the tier, the output on the device
  kStore,  // the other way
  // Input 1 lies on the device, and is written into input 0, a variable in the tier. The output has no bytes.
  kStoreInto,
};

// Adds a copy and returns its output. It acts as often as `like`, and has that one's role, chunk and unit. What is
// copied stays on the ranks where it is, and lies there as it does. `name` is new in the graph.
ValueId AddTierCopy(Graph& graph, TierCopy copy, const TierKind& tier, std::vector<ValueId> inputs, std::string name,
                    const Node& like);

// The first number that is no node's unit.
int FirstFreeUnit(const Graph& graph);

}  // namespace oneflow
