// The other options of a node and their costs: the figures behind "why does this tensor lie so".
#pragma once

#include <vector>

#include "compiler/select/search.h"

namespace oneflow {

struct Alternative {
  int option = 0;  // of the node
  // Of a step, if the node took this option and the rest adapted, as far as single moves and one move of the region
  // around it can tell. For the chosen option: the result's own.
  Cost cost;
  std::vector<int> choice;  // the options of all nodes then
};

// All options of `node` that its unit allows, in their order.
std::vector<Alternative> Alternatives(const SearchProblem& problem, const SearchResult& result, int node);

}  // namespace oneflow
