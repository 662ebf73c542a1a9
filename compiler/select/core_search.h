// The search after elimination: units whose tables would be too large.
//
//   ascent   a lower bound is raised (dual_ascent.h), and its messages are read as choices, which single moves improve
//   drop     options that the bound shows to be dearer than the best known choice are dropped; elimination continues,
//            then the ascent over the rest of the core
//   beam     when the bound stops rising, the open options are searched in order (beam.h), and region moves improve
//            the result
//
// The result is exact if bound and choice meet, or if elimination comes to the end.
#pragma once

#include "compiler/select/elimination.h"
#include "compiler/select/local_search.h"

namespace oneflow {

struct CoreResult {
  std::vector<int> options;  // by unit
  bool exact = false;
  double lower_bound = 0;  // of all choices; the total of `options` if exact
  int core_units = 0;      // how many units there were
};

// Continues with the core that `elimination` left of `factors`. `start` has a choice; the result is not worse than
// region moves from there.
CoreResult SearchCore(const CostGraph& graph, Factors& factors, Elimination& elimination, const SearchLimits& limits,
                      LocalSearch& start);

}  // namespace oneflow
