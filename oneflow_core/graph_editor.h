// What passes of the compiler edit a graph with: a builder that goes on with a graph, chooses what new nodes are for,
// and may change nodes in place.
//
//   GraphEditor editor(ops, std::move(graph));
//   editor.Imitate(node);              // what follows serves what `node` serves
//   Tensor mean = Scale(x, 0.5);       // functions of the DSL work on its tensors
//   editor.mutable_graph().node(reader).inputs[0] = mean.id();
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "oneflow_core/builder.h"

namespace oneflow {

// Not thread-safe.
class GraphEditor : public GraphBuilder {
 public:
  // `ops` is borrowed and must outlive the editor.
  GraphEditor(const OpRegistry& ops, Graph graph) : GraphBuilder(ops, std::move(graph)) {}

  // What new nodes are for; see Node.
  void set_role(Role role, NodeId forward = -1, NodeId variable = -1);
  // If set, the source line of new nodes: a gradient points at the line of its forward node.
  void set_source(std::optional<std::string> source) { source_ = std::move(source); }
  void set_placement_hint(PlacementHint at) { at_ = std::move(at); }

  // New nodes are for what `like` is for, and have its source line and placement hint.
  void Imitate(const Node& like);

  Graph& mutable_graph() { return graph_; }
};

}  // namespace oneflow
