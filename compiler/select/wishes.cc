#include "compiler/select/wishes.h"

#include <algorithm>

namespace oneflow {

std::optional<Wish> WeakestWish(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::optional<Wish> weakest;
  int priority = 0;
  for (NodeId id : nodes) {
    for (ValueId output : graph.node(id).outputs) {
      for (const AxisSbp& wish : graph.value(output).hint) {
        if (wish.priority <= priority) continue;
        priority = wish.priority;
        weakest = {output, wish.axis};
      }
    }
  }
  return weakest;
}

void DropWish(Graph& graph, const Wish& wish) {
  SbpHint& hint = graph.value(wish.value).hint;
  hint.erase(std::find_if(hint.begin(), hint.end(), [&](const AxisSbp& x) { return x.axis == wish.axis; }));
}

}  // namespace oneflow
