// A search through the units that elimination leaves: one after another takes each of its options, and of the resulting
// states the most promising few are kept.
//
//   promise of a state = seconds of the units that have chosen, of all others at least
//                      + each factor at its least, given what its units have chosen so far
//
// This never exceeds what the state can come to, so that a state beyond the upper bound is dropped for good. States
// that agree in all that open factors have seen of them go on alike, and only the cheapest stays. If no other state had
// to be dropped, the result is exact. Units are taken such that few factors are open: along the graph, the lowest unit
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

// `core`: the units that have a choice, ascending; `upper`: the cost of a solution that is known.
BeamResult SearchBeam(const Factors& factors, const std::vector<int>& core, double upper, const SearchLimits& limits);

}  // namespace oneflow
