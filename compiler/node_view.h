// What the compiler asks about a node of a graph: the types of its operands, how they lie, what it has to compute; and
// whether the node could be another one.
#pragma once

#include <string>
#include <vector>

#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"

namespace oneflow {

// One SBP per operand and axis.
struct Layout {
  std::vector<NdSbp> inputs;
  std::vector<NdSbp> outputs;
  // "(S(0),B),(B,S(1))->(S(0),S(1))".
  std::string ToString() const;
  bool operator==(const Layout& o) const { return inputs == o.inputs && outputs == o.outputs; }
};

// The number of parts into which the axes cut a tensor that lies so.
double Parts(const NdSbp& sbp, const std::vector<Axis>& axes);

// What a node does once: floating point operations, and bytes of its operands.
struct NodeWork {
  double flops = 0;
  double bytes = 0;
};

// A view of a node, which it borrows with its graph and its op.
class NodeView {
 public:
  NodeView(const Graph& graph, const Node& node, const OpDef& op) : graph_(graph), node_(node), op_(op) {}
  // REQUIRES: the node's op is one of `ops`.
  NodeView(const Graph& graph, NodeId id, const OpRegistry& ops)
      : NodeView(graph, graph.node(id), *ops.Find(graph.node(id).op)) {}

  const Node& node() const { return node_; }
  const OpDef& op() const { return op_; }
  std::vector<TensorType> input_types() const { return TypesOf(node_.inputs); }
  std::vector<TensorType> output_types() const { return TypesOf(node_.outputs); }
  // REQUIRES: all operands have a dist.
  Layout layout() const { return LayoutOf(graph_, node_); }
  static Layout LayoutOf(const Graph& graph, const Node& node);

  // Of the whole node.
  NodeWork work() const;
  // Of the rank that has the largest shards. REQUIRES: all operands have a dist.
  NodeWork largest_share() const;
  // Of a rank, if operands lay like that on the node's placement: an even share of each tensor, and of the work along
  // every axis that cuts some operand.
  NodeWork even_share(const Layout& layout) const;

  // InvalidArgument, naming the signature and the axis sizes, unless `layout` consists of signatures of the node that
  // may be used together on the axes of `placement` (CheckNdSignature).
  absl::Status CheckLayout(const Layout& layout, const Placement& placement) const;

 private:
  std::vector<TensorType> TypesOf(const std::vector<ValueId>& values) const;

  const Graph& graph_;
  const Node& node_;
  const OpDef& op_;
};

// Replaces a node, if an op can give the same values of the same operands as `with` names: its types are those of
// the outputs, and their layouts one of its own on the node's placement. Returns whether it did; if not, nothing has
// changed. REQUIRES: all operands have a dist.
bool TryReplace(Graph& graph, NodeId id, Node with, const OpRegistry& ops);

}  // namespace oneflow
