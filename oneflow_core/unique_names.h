// Names of nodes that are taken, and new ones made from wishes: "relu", "relu_2", "relu_3", ...
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "oneflow_core/graph.h"

namespace oneflow {

class UniqueNames {
 public:
  UniqueNames() = default;
  // Takes the names of all nodes of `graph`.
  explicit UniqueNames(const Graph& graph);

  // Takes `wish` if it is free, else the first of "wish_2", "wish_3", ... that is. Constant time on average.
  std::string Make(const std::string& wish);

 private:
  absl::flat_hash_map<std::string, int> next_;  // by taken name: the number to try next behind it
};

}  // namespace oneflow
