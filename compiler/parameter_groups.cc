#include "compiler/parameter_groups.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/status.h"
#include "oneflow_core/variable_role.h"

namespace oneflow {
namespace {

constexpr size_t kMostNames = 6;  // in an error

bool IsTrainable(const Node& node, const OpRegistry& ops) {
  return ops.Is(node.op, OpKind::kVariable) && node.attrs.Bool("trainable");
}

// Whether the weight stays as it is because adapters are trained instead.
bool IsBesideAdapters(const Node& node, const OptimizerOptions& optimizer) {
  if (!optimizer.adapters.has_value() || RoleOfVariable(node.attrs) != VariableRole::kWeight) return false;
  const std::vector<std::string>& also = optimizer.adapters->also;
  return std::none_of(also.begin(), also.end(),
                      [&](const std::string& pattern) { return MatchesPattern(pattern, node.name); });
}

}  // namespace

std::string SomeOf(std::vector<std::string> names) {
  const size_t all = names.size();
  if (all > kMostNames) names.resize(kMostNames);
  return absl::StrCat("'", absl::StrJoin(names, "', '"), "'", all > kMostNames ? ", ..." : "");
}

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
  return IsTrainable(node, ops) && !IsBesideAdapters(node, optimizer) && !UpdateOf(optimizer, node.name).frozen;
}

std::vector<bool> HiddenMatrices(const Graph& graph, const OpRegistry& ops) {
  std::vector<NodeId> matrix(graph.num_values(), -1);  // by value: the variable that it is, perhaps in another type
  std::vector<bool> hidden(graph.num_nodes(), false), table(graph.num_nodes(), false);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!IsForward(node)) continue;
    const OpKind kind = ops.KindOf(node.op);
    if (IsTrainable(node, ops) && graph.value(node.outputs[0]).type.shape.rank() == 2) {
      matrix[node.outputs[0]] = id;
    } else if (kind == OpKind::kCast || kind == OpKind::kAnnotation) {
      matrix[node.outputs[0]] = matrix[node.inputs[0]];
    } else {
      // What reads integers too looks rows up; only products have a use for the whole matrix.
      const bool looks_up = std::any_of(node.inputs.begin(), node.inputs.end(),
                                        [&](ValueId input) { return !IsFloating(graph.value(input).type.dtype); });
      const bool multiplies = ops.Find(node.op)->precision == Precision::kCompute && !looks_up;
      for (const ValueId input : node.inputs) {
        if (matrix[input] < 0) continue;
        if (multiplies) hidden[matrix[input]] = true;
        if (looks_up) table[matrix[input]] = true;
      }
    }
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) hidden[id] = hidden[id] && !table[id];
  std::vector<bool> seen(graph.num_values(), false);
  std::vector<ValueId> from = graph.losses;
  while (!from.empty()) {
    const ValueId value = from.back();
    from.pop_back();
    if (seen[value]) continue;
    seen[value] = true;
    const Node& node = graph.node(graph.value(value).producer);
    bool makes_outputs = false;
    for (const ValueId input : node.inputs) {
      if (matrix[input] < 0 || matrix[value] >= 0) continue;
      hidden[matrix[input]] = false;
      makes_outputs = true;
    }
    if (!makes_outputs) from.insert(from.end(), node.inputs.begin(), node.inputs.end());
  }
  return hidden;
}

absl::Status CheckGroup(const OptimizerOptions& optimizer, int group, const Graph& graph, const OpRegistry& ops) {
  const std::string& pattern = optimizer.groups[group].match;
  std::vector<std::string> names, taken;
  int by = -1;  // the group that has the first of `taken`
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!IsTrainable(node, ops) || IsBesideAdapters(node, optimizer)) continue;
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
