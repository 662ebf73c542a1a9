// SBP selection: one layout for every node of a placed graph, such that the predicted time of a step is least.
//
// What is given: hints on values (annotations) and the dists that variables already have. One preference goes before
// the prices: weights stay where they are, and tensors come to them. A layout that gathers or splits variables for
// their readers is taken only where annotations leave nothing else: a weight asked to be split over "tp" means tensor
// parallelism even if it is so small that gathering it would be faster, and splitting state against its readers (ZeRO)
// is a decision about memory, which a model of time cannot take. Whoever wants it annotates the variable.
#pragma once

#include <vector>

#include "compiler/boxed_graph.h"
#include "compiler/select/candidates.h"
#include "oneflow_core/graph.h"

namespace oneflow {

struct SelectOptions {
  int micro_batches = 1;  // per step; nodes of micro-batch rate cost as often
  DeviceKind device = DeviceKind::kCpu;
};

struct Selection {
  std::vector<Layout> layouts;  // by node
  double seconds = 0;           // predicted, of a step, as if nothing overlapped
};

// REQUIRES: every node has a placement and a rate. InvalidArgument, naming the node, the user's line, the SBP asked for
// and what exists, if an annotation cannot be met; Unimplemented if the annotations leave two nodes without a boxing
// between them.
absl::StatusOr<Selection> SelectSbp(const Graph& graph, const OpRegistry& ops, const Topology& topology,
                                    const VariableDists& variables, const SelectOptions& options);

}  // namespace oneflow
