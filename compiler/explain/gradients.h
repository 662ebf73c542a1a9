// Which value is the gradient of which.
#pragma once

#include <vector>

#include "compiler/explain/facts.h"

namespace oneflow {

// For every value of facts.boxed that a forward node makes: the value of facts.boxed that is its gradient; -1 where
// there is none. For a variable it is the sum that autodiff made for it; for others, the value that the backward nodes
// of their producer read. REQUIRES: the graphs of `facts` are set.
std::vector<ValueId> FindGradients(const GraphFacts& facts);

}  // namespace oneflow
