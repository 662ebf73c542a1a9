#include "compiler/passes/placement/variables.h"

#include <algorithm>

namespace oneflow {
namespace {

// A wish that names no stage holds on that of the reader.
absl::Status PlaceWithFirstReaders(Places& places, const std::vector<NodeId>& work) {
  const Graph& graph = places.graph();
  std::vector<bool> follows(graph.num_nodes(), false);  // has no place of its own
  for (NodeId id = 0; id < graph.num_nodes(); ++id) follows[id] = places.IsVariable(id) && !places.at(id).has_value();
  for (NodeId id : work) {
    for (ValueId input : graph.node(id).inputs) {
      const NodeId variable = places.Producer(input);
      if (!follows[variable]) continue;
      const std::optional<Site>& at = places.at(variable);
      if (at.has_value() && places.at(id)->stage >= at->stage) continue;
      Site location = *places.at(id);
      if (!graph.node(variable).at.empty()) {
        OF_ASSIGN_OR_RETURN(location, places.Wished(variable, location.stage));
      }
      places.Put(variable, std::move(location));
    }
  }
  return absl::OkStatus();
}

// Whether an earlier graph or the user has placed the variable: then no use of it may move it.
bool IsSettled(const Places& places, NodeId variable) {
  const Node& node = places.graph().node(variable);
  return places.context().variables.count(node.name) > 0 || !node.at.empty();
}

// The node moves to the variables that it overwrites, and all of these to one place: that of the first settled
// variable, else the one that the node wishes for, else that of the first variable.
absl::Status PlaceMutation(Places& places, NodeId id) {
  const Node& node = places.graph().node(id);
  const std::vector<int>& mutated = places.op(id).mutates;
  const auto variable = [&](int index) { return places.Producer(node.inputs[index]); };
  const auto settled =
      std::find_if(mutated.begin(), mutated.end(), [&](int index) { return IsSettled(places, variable(index)); });
  const bool wishes = !node.at.empty();
  const NodeId first = variable(settled == mutated.end() ? mutated[0] : *settled);
  const Site location = settled == mutated.end() && wishes ? *places.at(id) : *places.at(first);
  if (wishes && places.at(id)->placement != location.placement) {
    return absl::InvalidArgumentError(absl::StrCat(Where(node), ": is to run on ", places.at(id)->placement.ToString(),
                                                   ", but overwrites variable '", places.graph().node(first).name,
                                                   "', which is to lie on ", location.placement.ToString()));
  }
  for (int index : mutated) {
    const NodeId other = variable(index);
    if (IsSettled(places, other) && places.at(other)->placement != location.placement) {
      return absl::InvalidArgumentError(absl::StrCat(
          Where(node), ": overwrites variable '", places.graph().node(first).name, "', which is to lie on ",
          location.placement.ToString(), ", and '", places.graph().node(other).name, "', which is to lie on ",
          places.at(other)->placement.ToString(), "; variables that one node overwrites must lie together"));
    }
    places.Put(other, location);
  }
  places.Put(id, location);
  return absl::OkStatus();
}

// A weight that the model reads at another point, which is a variable too (compiler/points.h), has no reader itself.
void PlaceWithPoints(Places& places) {
  for (NodeId id = 0; id < places.graph().num_nodes(); ++id) {
    const NodeId weight = places.graph().node(id).variable;
    if (weight < 0 || weight == id || !places.IsVariable(id) || !places.IsVariable(weight)) continue;
    if (places.at(id).has_value() && !places.at(weight).has_value()) places.Put(weight, Site(*places.at(id)));
  }
}

void PlaceFetches(Places& places, const std::vector<NodeId>& work) {
  for (NodeId id : work) {
    if (!places.Is(id, OpKind::kFetch)) continue;
    const std::optional<Site>& producer = places.at(places.Producer(places.graph().node(id).inputs[0]));
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
      OF_ASSIGN_OR_RETURN(Site location, places.Wished(id, 0));
      places.Put(id, std::move(location));
    }
  }
  return absl::OkStatus();
}

absl::Status PlaceReadVariables(Places& places) {
  const std::vector<NodeId> work = places.ForwardWork();
  OF_RETURN_IF_ERROR(PlaceWithFirstReaders(places, work));
  for (NodeId id : work) {
    if (!places.op(id).mutates.empty()) OF_RETURN_IF_ERROR(PlaceMutation(places, id));
  }
  PlaceWithPoints(places);
  PlaceFetches(places, work);
  return absl::OkStatus();
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
