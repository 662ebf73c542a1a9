#include "compiler/passes/placement/variables.h"

namespace oneflow {
namespace {

void PlaceWithFirstReaders(Places& places, const std::vector<NodeId>& work) {
  const Graph& graph = places.graph();
  std::vector<bool> follows(graph.num_nodes(), false);  // has no place of its own
  for (NodeId id = 0; id < graph.num_nodes(); ++id) follows[id] = places.IsVariable(id) && !places.at(id).has_value();
  for (NodeId id : work) {
    for (ValueId input : graph.node(id).inputs) {
      const NodeId variable = places.Producer(input);
      if (!follows[variable]) continue;
      const std::optional<Location>& at = places.at(variable);
      if (!at.has_value() || places.at(id)->stage < at->stage) places.Put(variable, *places.at(id));
    }
  }
}

void PlaceMutations(Places& places, const std::vector<NodeId>& work) {
  for (NodeId id : work) {
    const std::vector<int>& mutated = places.op(id).mutates;
    if (mutated.empty()) continue;
    const auto variable = [&](int index) { return places.Producer(places.graph().node(id).inputs[index]); };
    places.Put(id, *places.at(variable(mutated[0])));
    for (int index : mutated) places.Put(variable(index), *places.at(id));
  }
}

void PlaceFetches(Places& places, const std::vector<NodeId>& work) {
  for (NodeId id : work) {
    if (!places.Is(id, OpKind::kFetch)) continue;
    const std::optional<Location>& producer = places.at(places.Producer(places.graph().node(id).inputs[0]));
    if (producer.has_value()) places.Put(id, *producer);
  }
}

}  // namespace

absl::Status PlaceFixedVariables(Places& places) {
  for (NodeId id = 0; id < places.graph().num_nodes(); ++id) {
    if (!places.IsVariable(id)) continue;
    const auto fixed = places.context().variables.find(places.graph().node(id).name);
    if (fixed != places.context().variables.end()) {
      places.Put(id, {places.StageOf(fixed->second.placement), fixed->second.placement});
    } else if (places.WishesStage(id)) {
      OF_ASSIGN_OR_RETURN(Location location, places.Wished(id, 0));
      places.Put(id, std::move(location));
    }
  }
  return absl::OkStatus();
}

void PlaceReadVariables(Places& places) {
  const std::vector<NodeId> work = places.ForwardWork();
  PlaceWithFirstReaders(places, work);
  PlaceMutations(places, work);
  PlaceFetches(places, work);
}

absl::Status CheckMutations(const Places& places) {
  const Graph& graph = places.graph();
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (int index : places.op(id).mutates) {
      const NodeId variable = places.Producer(graph.node(id).inputs[index]);
      if (places.at(variable)->placement == places.at(id)->placement) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          Where(graph.node(id)), ": overwrites variable '", graph.node(variable).name, "' on ",
          places.at(variable)->placement.ToString(), " but has to run on ", places.at(id)->placement.ToString()));
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
