// What tests of modules and models ask of a graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "oneflow_core/graph.h"

namespace oneflow::testing {

// "type init hint" of every trainable variable, by name: "f32[4,8] normal(0.02) tp:S(1)".
inline std::map<std::string, std::string> Parameters(const Graph& graph) {
  std::map<std::string, std::string> result;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != "variable" || !node.attrs.Bool("trainable")) continue;
    const Value& value = graph.value(node.outputs[0]);
    std::string& text = result[node.name];
    text = absl::StrCat(value.type.ToString(), " ", node.attrs.String("init"));
    if (!value.hint.empty()) absl::StrAppend(&text, " ", ToString(value.hint));
  }
  return result;
}

// Elements of all trainable variables.
inline int64_t NumParameters(const Graph& graph) {
  int64_t count = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op == "variable" && node.attrs.Bool("trainable")) count += graph.value(node.outputs[0]).type.shape.count();
  }
  return count;
}

inline int CountOps(const Graph& graph, absl::string_view op) {
  int count = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) count += graph.node(id).op == op;
  return count;
}

// The names under which the graph hands values to the host, in order.
inline std::vector<std::string> Fetches(const Graph& graph) {
  std::vector<std::string> result;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (graph.node(id).op == "fetch") result.push_back(graph.node(id).attrs.String("name"));
  }
  return result;
}

// The ops of the graph's nodes that are no variables, in order.
inline std::vector<std::string> Ops(const Graph& graph) {
  std::vector<std::string> result;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (graph.node(id).op != "variable") result.push_back(graph.node(id).op);
  }
  return result;
}

}  // namespace oneflow::testing
