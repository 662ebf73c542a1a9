// Units of agreement: an op that overwrites variables needs them as they lie, so that they are chosen together.
//
//   adamw_update overwrites w, m, v        unit {adamw_update, w, m, v}     options: all S(0) | all S(1) | all B
//   matmul overwrites nothing              unit {matmul}                    options: its own
//
// Nodes are united transitively. The nodes that overwrite come first in a unit: they decide, and each variable then has
// one possible layout.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/node_view.h"
#include "compiler/select/search.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "oneflow_core/status.h"

namespace oneflow {

// What agreement asks about a node. Borrows everything.
struct AgreementInput {
  const Graph& graph;
  const OpRegistry& ops;
  const std::vector<SearchProblem::Node>& nodes;                   // by node of the graph, with their options
  std::function<const std::vector<Layout>&(NodeId)> layouts = {};  // of a node's options, for words
};

struct Agreement {
  std::vector<SearchProblem::Unit> units;  // every node is in exactly one
  std::vector<std::string> notes;          // on units of which not all options were listed
};

// InvalidArgument, naming the op, the variables with their layouts, the op's signatures and the nearest change, if the
// nodes of a unit cannot agree; `conflict` then lists these nodes.
absl::StatusOr<Agreement> FindAgreement(const AgreementInput& input, std::vector<NodeId>& conflict);

}  // namespace oneflow
