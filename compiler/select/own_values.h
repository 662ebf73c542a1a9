// Values that ranks along an axis have of their own: P(mean). Where ranks train by themselves, each on its own samples,
// everything that follows from these differs between them until someone takes the mean:
//
//   variables that the graph overwrites, samples, random numbers     of their own
//   what is computed with any such value                             too
//   `addends` of such a value                                        a row of each rank: from here on a value as others
//
// On that axis there is nothing to choose for them, whatever is annotated: a wish for samples over the axis is met by
// samples that differ anyway.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/local_training.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "oneflow_core/status.h"
#include "sbp/signatures.h"

namespace oneflow {

class OwnValues {
 public:
  OwnValues() = default;
  // Borrows nothing. `variables`: those that earlier graphs have placed.
  OwnValues(const Graph& graph, const OpRegistry& ops, const VariableDists& variables, const OwnAxis& axis);

  // Whether ranks along `axis` have the value of their own.
  bool Has(ValueId value, const std::string& axis) const { return axis == axis_ && !is_own_.empty() && is_own_[value]; }
  // The only signature along `axis` of a node that makes or reads such values; none: the node has to do with none.
  // InvalidArgument, naming both places, if the node is asked to have it whole or in parts.
  absl::StatusOr<std::optional<Signature>> SignatureOf(const Graph& graph, const OpRegistry& ops, NodeId node,
                                                       const std::string& axis) const;

 private:
  bool Follow(const Graph& graph, const OpRegistry& ops, const VariableDists& variables, const OwnAxis& axis);

  std::string axis_;
  std::vector<bool> is_own_;  // by value
};

}  // namespace oneflow
