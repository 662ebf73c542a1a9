#include "compiler/passes/placement/followers.h"

namespace oneflow {
namespace {

Site UpdateLocation(const Places& places, NodeId id) {
  const Node& node = places.graph().node(id);
  for (int index : places.op(id).mutates) {
    const std::optional<Site>& variable = places.at(places.Producer(node.inputs[index]));
    if (variable.has_value()) return *variable;
  }
  if (node.variable >= 0 && places.at(node.variable).has_value()) return *places.at(node.variable);
  const Site* lowest = nullptr;
  for (ValueId input : node.inputs) {
    const std::optional<Site>& from = places.at(places.Producer(input));
    if (from.has_value() && (lowest == nullptr || from->stage < lowest->stage)) lowest = &*from;
  }
  return lowest == nullptr ? places.stage(0) : *lowest;
}

}  // namespace

absl::Status PlaceBackward(Places& places) {
  for (NodeId id = 0; id < places.graph().num_nodes(); ++id) {
    const Node& node = places.graph().node(id);
    if (!IsBackward(node) || places.IsSource(id)) continue;
    const NodeId served = node.forward >= 0 ? node.forward : node.variable;
    if (served < 0 || !places.at(served).has_value()) {
      return absl::InternalError(absl::StrCat(Where(node), ": serves no node that has a place"));
    }
    places.Put(id, *places.at(served));
  }
  return absl::OkStatus();
}

void PlaceUpdate(Places& places) {
  const Graph& graph = places.graph();
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!IsUpdate(node) || places.IsVariable(id) || places.IsSource(id)) continue;
    const Site location = UpdateLocation(places, id);
    places.Put(id, location);
    for (ValueId input : node.inputs) {
      const NodeId producer = places.Producer(input);
      if (places.IsVariable(producer) && !places.at(producer).has_value()) places.Put(producer, location);
    }
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (places.IsVariable(id) && !places.at(id).has_value()) places.Put(id, places.stage(0));
  }
}

}  // namespace oneflow
