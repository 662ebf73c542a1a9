#include "compiler/passes/placement/homes.h"

#include <map>

#include "oneflow_core/unique_names.h"

namespace oneflow {
namespace {

class Reader {
 public:
  explicit Reader(Places& places)
      : places_(places), graph_(places.graph()), readers_(graph_.Consumers()), names_(graph_) {}

  void Run() {
    const int num_nodes = graph_.num_nodes();
    for (NodeId id = 0; id < num_nodes; ++id) {
      if (places_.IsVariable(id) && places_.IsElsewhere(id)) ReadHere(id);
    }
  }

 private:
  void ReadHere(NodeId variable) {
    const ValueId home = graph_.node(variable).outputs[0];
    std::map<Placement, ValueId> here;
    for (const NodeId reader : readers_[home]) {
      const Site location = *places_.at(reader);
      if (location.placement == places_.at(variable)->placement) continue;
      const auto [it, is_new] = here.try_emplace(location.placement, -1);
      if (is_new) it->second = Add(variable, location);
      for (ValueId& input : graph_.node(reader).inputs) {
        if (input == home) input = it->second;
      }
    }
  }

  // The variable's value at `location`.
  ValueId Add(NodeId variable, const Site& location) {
    const Value value = graph_.value(graph_.node(variable).outputs[0]);
    Node node;
    node.op = "to";
    node.name = names_.Make(absl::StrCat(graph_.node(variable).name, "/here"));
    node.inputs = {graph_.node(variable).outputs[0]};
    node.source = graph_.node(variable).source;
    const NodeId to = graph_.AddNode(std::move(node), {value.type});
    places_.PutNew(location);
    const ValueId output = graph_.node(to).outputs[0];
    graph_.value(output).hint = value.hint;
    return output;
  }

  Places& places_;
  Graph& graph_;
  const std::vector<std::vector<NodeId>> readers_;  // by value, before any was added
  UniqueNames names_;
};

}  // namespace

void ReadFromHomes(Places& places) { Reader(places).Run(); }

}  // namespace oneflow
