// Replaces parts by their wholes, by the rows of the table of fusions (oneflow_core/fusions.h). Layouts, boxings and
// clones are known by then, so rows are compared with the neighbours that there will be.
//
// A match is a row with its nodes. It holds if the parts belong to the same work and the op of the whole takes and
// gives the same values, in types and layouts. A part whose values all disappear may belong to several matches, one for
// each of its readers: each whole then repeats its work, which costs no memory. Any other node is in one match, that of
// the first row.
#pragma once

#include <functional>

#include "oneflow_core/fusions.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"

namespace oneflow {

using FusionFilter = std::function<bool(const FusionRow&)>;

// Applies, once, the rows that `filter` lets pass. Returns whether there was anything: a whole may be a part, or given,
// of another match.
bool ApplyFusions(Graph& graph, const OpRegistry& ops, const FusionFilter& filter);

}  // namespace oneflow
