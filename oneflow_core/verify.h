// Checks a graph: the invariants of graph.h, and every node against the definition of its op. The compiler runs it
// after every pass, and the parser of graphs while it reads.
//
//   of the graph   nodes have names of their own; values are numbered in the order of their nodes and outputs; losses
//                  are f32 scalars
//   of each node   its op exists; it reads values made before it; its outputs are what inference says; the inputs that
//                  its op overwrites are variables
//   of segments    kinds are words, and what a segment lies in comes before it
//   of provenance  what serves a forward node or a variable names one
//   of wishes      names of attributes and mesh axes are words, no axis is named twice, a split dimension exists
//
// All errors are InvalidArgument and name the node, the user's line and both values.
#pragma once

#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"

namespace oneflow {

// The whole graph. Linear time, plus one inference per node.
absl::Status VerifyGraph(const Graph& graph, const OpRegistry& ops);

// The part that concerns one node, given that those before it are right; for readers that build a graph node by node.
// REQUIRES: the node was added by Graph::AddNode.
absl::Status VerifyNode(const Graph& graph, NodeId id, const OpRegistry& ops);

// The part that concerns what the node serves, which may come after it.
absl::Status VerifyProvenance(const Graph& graph, NodeId id, const OpRegistry& ops);

// The part that concerns one segment, given those before it.
absl::Status VerifySegment(const Graph& graph, int id);

// The part that concerns the losses.
absl::Status VerifyLosses(const Graph& graph);

// Whether `name` is a letter or '_' followed by letters, digits and '_': what attributes and mesh axes are called, so
// that no text form has to quote them.
bool IsWord(absl::string_view name);

}  // namespace oneflow
