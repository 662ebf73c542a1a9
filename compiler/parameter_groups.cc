#include "compiler/parameter_groups.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/status.h"

namespace oneflow {
namespace {

constexpr size_t kMostNames = 6;  // in an error

bool IsTrainable(const Node& node, const OpRegistry& ops) {
  return ops.Is(node.op, OpKind::kVariable) && node.attrs.Bool("trainable");
}

std::string SomeOf(std::vector<std::string> names) {
  const size_t all = names.size();
  if (all > kMostNames) names.resize(kMostNames);
  return absl::StrCat("'", absl::StrJoin(names, "', '"), "'", all > kMostNames ? ", ..." : "");
}

}  // namespace

bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  size_t p = 0, n = 0, star = absl::string_view::npos, after_star = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {  // first it stands for nothing
      star = p++;
      after_star = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != absl::string_view::npos) {  // the last star takes one more
      p = star + 1;
      n = ++after_star;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + p, pattern.end(), [](char c) { return c == '*'; });
}

int GroupOf(const OptimizerOptions& optimizer, absl::string_view variable) {
  for (size_t i = 0; i < optimizer.groups.size(); ++i) {
    if (MatchesPattern(optimizer.groups[i].match, variable)) return static_cast<int>(i);
  }
  return -1;
}

const UpdateOptions& UpdateOf(const OptimizerOptions& optimizer, absl::string_view variable) {
  const int group = GroupOf(optimizer, variable);
  return group < 0 ? static_cast<const UpdateOptions&>(optimizer) : optimizer.groups[group];
}

bool IsTrained(const Node& node, const OpRegistry& ops, const OptimizerOptions& optimizer) {
  return IsTrainable(node, ops) && !UpdateOf(optimizer, node.name).frozen;
}

absl::Status CheckGroup(const OptimizerOptions& optimizer, int group, const Graph& graph, const OpRegistry& ops) {
  const std::string& pattern = optimizer.groups[group].match;
  std::vector<std::string> names, taken;
  int by = -1;  // the group that has the first of `taken`
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!IsTrainable(node, ops)) continue;
    const int of = GroupOf(optimizer, node.name);
    if (of == group) return absl::OkStatus();
    names.push_back(node.name);
    if (!MatchesPattern(pattern, node.name)) continue;
    taken.push_back(node.name);
    if (by < 0) by = of;
  }
  if (taken.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", pattern, "' matches no trainable variable; there are ", SomeOf(names)));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "all that '", pattern, "' matches is in groups before this one: ", SomeOf(taken), " (groups[", by, "])"));
}

}  // namespace oneflow
