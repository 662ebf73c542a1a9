// A search through the units that elimination leaves. One after another takes each of its options, and the most
// promising few of the resulting states are kept.
//
//   promise of a state = seconds of the units that have chosen, and the least of all others
//                      + the least of each factor, given the choices of its units so far
//
// This never exceeds the final cost of the state, so a state beyond the upper bound is dropped for good. States that
// agree in all choices that open factors have seen continue alike, and only the cheapest stays. If no other state had
// to be dropped, the result is exact. Units are taken along the graph, so that few factors are open: the lowest unit
// first.
#pragma once

#include <vector>

#include "compiler/select/factors.h"

namespace oneflow {

struct BeamResult {
  bool found = false;        // a choice cheaper than `upper`
  std::vector<int> options;  // by unit of the problem; only those of the core are set
  bool exact = false;        // no choice is cheaper than this one, or than `upper` if none was found
  double lower_bound = 0;    // of all choices; `upper` if none can be cheaper
};

// `core`: the units that have a choice, ascending; `upper`: the cost of a known solution.
BeamResult SearchBeam(const Factors& factors, const std::vector<int>& core, double upper, const SearchLimits& limits);

}  // namespace oneflow
