// Distinguishes nodes that may have different signatures. Layers repeat, so a graph of 10^5 nodes has some hundred
// different ones; results for one are looked up for all nodes with the same key.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "oneflow_core/graph.h"

namespace oneflow {

// Keys of the nodes of one graph, which it borrows; it must not change. Equal keys mean equal signatures on equally
// many ranks.
class LookAlikes {
 public:
  explicit LookAlikes(const Graph& graph) : graph_(graph) {}

  // Op, attributes that signatures may depend on, and the types of all operands, as numbers.
  std::vector<int> Key(const Node& node);
  // The number of a text, for longer keys: texts are numbered from 0 in order of first use.
  int Number(const std::string& text);

 private:
  int TypeNumber(ValueId value);

  const Graph& graph_;
  absl::flat_hash_map<std::string, int> texts_;
  std::map<std::tuple<DType, std::vector<int64_t>, int>, int> types_;
};

}  // namespace oneflow
