// Whether what a user asked for holds in a graph whose layouts are chosen.
#pragma once

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "oneflow_core/graph.h"

namespace oneflow::testing {

// Expects, along each axis for itself, that a value lies as it was asked to; says of how many axes of values that is. A
// wish that may yield (its priority is not 0), or of an axis that is not there, says nothing.
inline int ExpectAnnotationsHold(const Graph& graph) {
  int met = 0;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const Value& value = graph.value(id);
    for (const AxisSbp& wish : value.hint) {
      const std::vector<Axis>& axes = value.dist->placement.axes();
      const auto axis = std::find_if(axes.begin(), axes.end(), [&](const Axis& a) { return a.name == wish.axis; });
      if (axis == axes.end() || wish.priority > 0) continue;
      EXPECT_EQ(value.dist->sbp[axis - axes.begin()].ToString(), wish.sbp.ToString())
          << Where(graph.node(value.producer)) << " along " << wish.axis;
      ++met;
    }
  }
  return met;
}

}  // namespace oneflow::testing
