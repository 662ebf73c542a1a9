// What elimination leaves: units whose tables would be too large.
//
//   ascent   a lower bound is raised (dual_ascent.h), and its messages are read as choices, which single moves improve
//   drop     options that the bound shows to be dearer than the best choice known go; elimination, which then may get
//            further, goes on, and the ascent over what is left of the core
//   beam     what is still open, when the bound stops rising, is searched in order (beam.h), and region moves improve
//            the result
//
// Bound and choice meet, or elimination comes to the end: then the result is exact.
#pragma once

#include "compiler/select/elimination.h"
#include "compiler/select/local_search.h"

namespace oneflow {

// Goes on with what `elimination` left of `factors`. `start` has a choice; the result is not worse than what its region
// moves would make of it.
SearchResult SearchCore(const CostGraph& graph, Factors& factors, Elimination& elimination, const SearchLimits& limits,
                        LocalSearch& start);

}  // namespace oneflow
