// The reason for the layout of every tensor of a graph, derived from the annotations and the remaining candidates.
//
//   x = to(data) {dp:S(0)}          annotated
//   y = relu(x)                     inherited from x: every candidate of the relu keeps S(0) along dp
//   z = matmul(y, w)                along tp: by cost, there were several candidates
#pragma once

#include <vector>

#include "compiler/explain/facts.h"

namespace oneflow {

// By value of facts.placed, by axis of its placement. REQUIRES: facts.placed, fixed, chosen and candidates are filled
// in.
std::vector<std::vector<Origin>> FindOrigins(const GraphFacts& facts, const OpRegistry& ops);

}  // namespace oneflow
