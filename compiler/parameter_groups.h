// Groups of variables that are trained otherwise than the rest: by another rate, decay or rule, or not at all. A group
// has the variables whose names its pattern matches and that no group before it has.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/options.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"

namespace oneflow {

// Whether `pattern` matches the whole of `name`: * is any number of characters, of a path too ("h*/ln*" matches
// "h0/ln1/weight"), and ? is one. Takes time in the product of both lengths at most.
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// Names for an error, of many the first: "'up', 'down', ...".
std::string SomeOf(std::vector<std::string> names);

// The index of the first group that has the variable; -1: none has.
int GroupOf(const OptimizerOptions& optimizer, absl::string_view variable);
// How the variable is updated: as its group says, or as the job.
const UpdateOptions& UpdateOf(const OptimizerOptions& optimizer, absl::string_view variable);

// Whether the node is a variable that gets a gradient: a trainable one that is not frozen. Where there are adapters,
// weights beside them are.
bool IsTrained(const Node& node, const OpRegistry& ops, const OptimizerOptions& optimizer);

// By node: whether it is a trainable matrix inside the network, which is multiplied by. It is not a table that ids are
// looked up in, and not the last matrix before a loss, which makes the outputs.
std::vector<bool> HiddenMatrices(const Graph& graph, const OpRegistry& ops);

// InvalidArgument if a group has no variable: its pattern matches none of the graph's trainable ones, whose names the
// error lists in part, or only such as groups before it have.
absl::Status CheckGroup(const OptimizerOptions& optimizer, int group, const Graph& graph, const OpRegistry& ops);

}  // namespace oneflow
