// SBP selection: one layout for every node of a placed graph, such that the predicted time of a step is least.
//
// The constraints are hints on values (annotations) and the dists that variables already have. One preference precedes
// prices: weights stay where they are, and tensors come to them. A layout that gathers or splits variables for their
// readers is taken only where annotations leave nothing else. A weight annotated as split over "tp" means tensor
// parallelism even if gathering the small weight would be faster. Splitting state against its readers (ZeRO) is a
// decision about memory, which a model of time cannot take; it is requested by annotating the variable.
#pragma once

#include <string>
#include <vector>

#include "compiler/boxed_graph.h"
#include "compiler/select/candidates.h"
#include "oneflow_core/graph.h"

namespace oneflow {

struct SelectOptions {
  int micro_batches = 1;  // per step; nodes of micro-batch rate cost as often
  // On one rank; 0: no limit. Values that do not fit are split to save memory, where that costs least.
  int64_t variable_limit_bytes =
      0;                           // of all variables, optimizer state among them; they are gathered for their readers
  int64_t memory_limit_bytes = 0;  // of all that memory_demand.h counts
  // By node: the piece of the model that backward computes again, -1: none. Empty: no recomputation.
  std::vector<int> recomputed = {};
  OwnAxis own = {};
  RingUse rings = RingUse::kByCost;
};

struct Selection {
  std::vector<Layout> layouts;  // by node
  double seconds = 0;           // predicted, of a step, as if nothing overlapped
  // Of all layouts that box as few weights as these:
  bool exact = false;      // none has a smaller prediction
  double lower_bound = 0;  // none has a smaller prediction than this
  int core_units = 0;      // how many units were searched by beam, not solved exactly (compiler/select/search.h)
  int num_prices = 0;      // how many boxings were priced
  // Where not all possible layouts were considered: "node 'x' (...) and 3 like it: 343 of 729 layouts were considered".
  // Even an exact result then is exact among these only.
  std::vector<std::string> notes;
};

// REQUIRES: every node has a placement and a rate. InvalidArgument, naming the node, the user's line, the requested SBP
// and the possible ones, if an annotation cannot be met; Unimplemented if the annotations leave two nodes without a
// boxing between them; ResourceExhausted if no layouts meet a limit.
absl::StatusOr<Selection> SelectSbp(const Graph& graph, const OpRegistry& ops, const Topology& topology,
                                    const VariableDists& variables, const SelectOptions& options);

// A possible layout of a node, and the predicted seconds of a step with it if the rest adapts.
struct LayoutPrice {
  Layout layout;
  double seconds = 0;
};

// All possible layouts of `node`, the chosen one with the selection's own seconds; cheapest first, equal ones in the
// order of candidates. Selects first; errors as SelectSbp.
absl::StatusOr<std::vector<LayoutPrice>> ExplainSelection(const Graph& graph, const OpRegistry& ops,
                                                          const Topology& topology, const VariableDists& variables,
                                                          const SelectOptions& options, NodeId node);

}  // namespace oneflow
