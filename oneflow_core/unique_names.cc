#include "oneflow_core/unique_names.h"

#include "absl/strings/str_cat.h"

namespace oneflow {

UniqueNames::UniqueNames(const Graph& graph) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) next_.emplace(graph.node(id).name, 2);
}

std::string UniqueNames::Make(const std::string& wish) {
  const auto [it, is_new] = next_.emplace(wish, 2);
  if (is_new) return wish;
  for (int number = it->second;; ++number) {
    std::string name = absl::StrCat(wish, "_", number);
    if (!next_.emplace(name, 2).second) continue;
    next_[wish] = number + 1;
    return name;
  }
}

}  // namespace oneflow
