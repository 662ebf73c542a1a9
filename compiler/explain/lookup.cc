#include "compiler/explain/lookup.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

constexpr size_t kNearest = 5;

// The least number of letters to insert, to drop or to replace.
int EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// "x:3" as {"x", 3}, if that is what it says.
std::pair<std::string, int> SplitOutput(absl::string_view name) {
  const size_t colon = name.rfind(':');
  int output = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(name.substr(colon + 1), &output)) {
    return {std::string(name), 0};
  }
  return {std::string(name.substr(0, colon)), output};
}

absl::StatusOr<TensorPlace> PlaceOf(const Graph& graph, NodeId node, int output) {
  const int num_outputs = static_cast<int>(graph.node(node).outputs.size());
  if (output < 0 || output >= std::max(num_outputs, 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(graph.node(node)), ": there is no output ", output, "; it has ", num_outputs));
  }
  return TensorPlace{0, node, num_outputs == 0 ? -1 : output};
}

// What a node of the placed graph, which may be part of another by now, makes: the tensor itself if it is still there,
// else the first of what it became part of.
absl::StatusOr<TensorPlace> FindPart(const GraphFacts& facts, NodeId id, int output) {
  const std::vector<ValueId>& outputs = facts.placed.node(id).outputs;
  const ValueId there = outputs.empty() ? -1 : facts.boxed_value_of[outputs[output]];
  const NodeId whole = there < 0 ? facts.boxed_of[id] : facts.boxed.value(there).producer;
  if (whole < 0) return absl::NotFoundError("");  // nothing of it is left
  OF_ASSIGN_OR_RETURN(TensorPlace place, PlaceOf(facts.boxed, whole, there < 0 ? 0 : facts.boxed.value(there).output));
  if (facts.boxed.node(whole).serial != facts.placed.node(id).serial) place.part = id;
  return place;
}

absl::StatusOr<TensorPlace> FindAnnotated(const GraphFacts& facts, NodeId annotation) {
  std::vector<NodeId> annotations;
  const ValueId asked = facts.placed.node(annotation).outputs[0];
  const Value& tensor = facts.placed.value(BehindAnnotations(facts, asked, &annotations));
  OF_ASSIGN_OR_RETURN(TensorPlace place, FindPart(facts, tensor.producer, tensor.output));
  place.annotations = std::move(annotations);
  return place;
}

absl::StatusOr<TensorPlace> FindIn(const GraphFacts& facts, const std::string& name, int output) {
  const Graph& boxed = facts.boxed;
  if (const auto it = facts.boxed_nodes.find(name); it != facts.boxed_nodes.end()) {
    if (!facts.Is(boxed.node(it->second), OpKind::kBoxing)) return PlaceOf(boxed, it->second, output);
    const Value& tensor = boxed.value(TensorOf(facts, boxed.node(it->second).outputs[0]));
    return PlaceOf(boxed, tensor.producer, tensor.output);
  }
  const auto it = facts.placed_nodes.find(name);
  if (it == facts.placed_nodes.end()) return absl::NotFoundError("");
  if (facts.Is(facts.placed.node(it->second), OpKind::kAnnotation)) return FindAnnotated(facts, it->second);
  OF_ASSIGN_OR_RETURN(TensorPlace place, PlaceOf(facts.placed, it->second, output));
  return FindPart(facts, it->second, std::max(place.output, 0));
}

}  // namespace

absl::StatusOr<std::vector<TensorPlace>> FindTensor(const JobFacts& job, absl::string_view name) {
  std::vector<TensorPlace> places;
  std::vector<std::string> names;
  const auto [node, output] = SplitOutput(name);
  for (size_t g = 0; g < job.graphs.size(); ++g) {
    absl::StatusOr<TensorPlace> place = FindIn(job.graphs[g], std::string(name), 0);
    if (absl::IsNotFound(place.status()) && node != name) place = FindIn(job.graphs[g], node, output);
    if (place.ok()) {
      places.push_back(*std::move(place));
      places.back().graph = static_cast<int>(g);
    } else if (!absl::IsNotFound(place.status())) {
      return place.status();
    }
    for (const auto& [known, id] : job.graphs[g].boxed_nodes) {
      if (!job.graphs[g].Is(job.graphs[g].boxed.node(id), OpKind::kBoxing)) names.push_back(known);
    }
    for (const auto& [known, id] : job.graphs[g].placed_nodes) {
      if (job.graphs[g].boxed_of[id] >= 0 && job.graphs[g].boxed_nodes.count(known) == 0) names.push_back(known);
    }
  }
  if (!places.empty()) return places;
  return absl::NotFoundError(absl::StrCat("there is no tensor '", name, "'; the nearest names are '",
                                          absl::StrJoin(NearestNames(node, names, kNearest), "', '"), "'"));
}

std::vector<TensorPlace> TensorsBeginningWith(const JobFacts& job, absl::string_view prefix) {
  std::vector<TensorPlace> places;
  std::set<std::string> seen;
  for (size_t g = 0; g < job.graphs.size(); ++g) {
    const Graph& graph = job.graphs[g].boxed;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      if (job.graphs[g].Is(node, OpKind::kBoxing) || !absl::StartsWith(node.name, prefix)) continue;
      if (!seen.insert(node.name).second) continue;
      places.push_back({static_cast<int>(g), id, node.outputs.empty() ? -1 : 0});
    }
    for (const auto& [name, id] : job.graphs[g].placed_nodes) {
      const bool is_part = job.graphs[g].boxed_of[id] >= 0 && job.graphs[g].boxed_nodes.count(name) == 0;
      if (!is_part || !absl::StartsWith(name, prefix)) continue;
      const absl::StatusOr<TensorPlace> place = FindPart(job.graphs[g], id, 0);
      if (!place.ok() || !seen.insert(name).second) continue;
      places.push_back(*place);
      places.back().graph = static_cast<int>(g);
    }
  }
  return places;
}

std::vector<std::string> NearestNames(absl::string_view name, const std::vector<std::string>& names, size_t count) {
  std::set<std::pair<int, std::string>> ranked;
  for (const std::string& known : names) {
    const bool contains = !name.empty() && absl::StrContains(known, name);
    ranked.emplace(contains ? 0 : EditDistance(name, known), known);
  }
  std::vector<std::string> nearest;
  for (const auto& [distance, known] : ranked) {
    if (nearest.size() < count) nearest.push_back(known);
  }
  return nearest;
}

}  // namespace oneflow
