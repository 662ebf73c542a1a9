// The scopes of the names that users gave, and which of them repeat. The layers of a model, made in a loop, are one
// block with a number, so they are described once.
//
//   h0/attn/q/matmul, h1/attn/q/matmul, ...      role "h*/attn/q/matmul", path {"h*", "h0", "attn", "q"}
//
// A scope repeats if there are others beside it whose names differ only in the number at the end, and if it holds
// scopes itself; `ln1` and `ln2` inside a layer hold only ops, and are different things.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"

namespace oneflow {

class Scopes {
 public:
  // Of the names of forward nodes; nodes derived from them lie in their scopes.
  Scopes(const Graph& graph, const OpRegistry& ops);

  // `name` with a '*' in place of the number of every repeated scope.
  std::string Role(absl::string_view name) const;
  // The scopes that hold `name`, outermost first; before a repeated scope the group of its like. Full paths.
  std::vector<std::string> Path(absl::string_view name) const;
  // The rest of `name` inside its innermost scope.
  std::string Inside(absl::string_view name) const;

 private:
  std::set<std::string, std::less<>> scopes_, repeated_;  // full paths
};

}  // namespace oneflow
