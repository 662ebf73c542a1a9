// Tensors by the names that people type: "h0/ln1/layer_norm", "h0/ln1/layer_norm:1" for its second output, the name of
// an annotation (`to`) or of a boxing for the tensor behind it, the name of an op that was fused for the op that it
// became part of.
#pragma once

#include <string>
#include <vector>

#include "compiler/explain/facts.h"

namespace oneflow {

// A node of a boxed graph, never a boxing, and one of its outputs; -1 if it has none.
struct TensorPlace {
  int graph = 0;  // index into JobFacts::graphs
  NodeId node = -1;
  int output = 0;
  std::vector<NodeId> annotations;  // of the placed graph: the `to` nodes by whose name it was found, last first
  NodeId part = -1;                 // of the placed graph: the part of the node by whose name it was found
};

// The places of `name`, one per graph that has it, in order. NotFound, listing the nearest names, if none has;
// InvalidArgument if the node has no such output.
absl::StatusOr<std::vector<TensorPlace>> FindTensor(const JobFacts& job, absl::string_view name);

// All places whose node's name begins with `prefix`, each name in the first graph that has it; of each graph, ops that
// became part of others last.
std::vector<TensorPlace> TensorsBeginningWith(const JobFacts& job, absl::string_view prefix);

// The `count` of `names` most similar to `name`: those that contain it first, then by the number of letters to change.
std::vector<std::string> NearestNames(absl::string_view name, const std::vector<std::string>& names, size_t count);

}  // namespace oneflow
