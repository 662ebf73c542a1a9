#include "compiler/explain/scopes.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// Calls visit(prefix) for every proper prefix of `name` that ends before a '/', shortest first.
template <typename Visit>
void ForEachPrefix(absl::string_view name, const Visit& visit) {
  for (size_t slash = name.find('/'); slash != absl::string_view::npos; slash = name.find('/', slash + 1)) {
    visit(name.substr(0, slash));
  }
}

// `scope` without the digits at its end.
absl::string_view WithoutNumber(absl::string_view scope) {
  while (!scope.empty() && absl::ascii_isdigit(scope.back())) scope.remove_suffix(1);
  return scope;
}

std::string Star(absl::string_view scope) {
  const absl::string_view stem = WithoutNumber(scope);
  return absl::StrCat(stem, "*");
}

}  // namespace

Scopes::Scopes(const Graph& graph, const OpRegistry& ops) {
  std::set<std::string, std::less<>> outer;  // scopes that hold scopes
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!IsForward(node) || ops.Is(node.op, OpKind::kBoxing)) continue;
    std::string before;
    ForEachPrefix(node.name, [&](absl::string_view prefix) {
      if (!before.empty()) outer.insert(before);
      before = std::string(prefix);
      scopes_.insert(before);
    });
  }
  std::map<std::string, std::vector<std::string>> alike;  // by the part without the number
  for (const std::string& scope : outer) {
    const absl::string_view stem = WithoutNumber(scope);
    if (stem.size() < scope.size()) alike[std::string(stem)].push_back(scope);
  }
  for (const auto& [stem, group] : alike) {
    if (group.size() > 1) repeated_.insert(group.begin(), group.end());
  }
}

std::string Scopes::Role(absl::string_view name) const {
  std::string role;
  size_t begin = 0;  // of the component that the prefix ends with
  ForEachPrefix(name, [&](absl::string_view prefix) {
    const absl::string_view component = prefix.substr(begin);
    const bool repeats = repeated_.count(std::string(prefix)) > 0;
    absl::StrAppend(&role, repeats ? Star(component) : std::string(component), "/");
    begin = prefix.size() + 1;
  });
  absl::StrAppend(&role, name.substr(begin));
  return role;
}

std::vector<std::string> Scopes::Path(absl::string_view name) const {
  std::vector<std::string> path;
  ForEachPrefix(name, [&](absl::string_view prefix) {
    if (scopes_.count(std::string(prefix)) == 0) return;
    if (repeated_.count(std::string(prefix)) > 0) path.push_back(Star(prefix));
    path.emplace_back(prefix);
  });
  return path;
}

std::string Scopes::Inside(absl::string_view name) const {
  size_t begin = 0;
  ForEachPrefix(name, [&](absl::string_view prefix) {
    if (scopes_.count(std::string(prefix)) > 0) begin = prefix.size() + 1;
  });
  return std::string(name.substr(begin));
}

}  // namespace oneflow
