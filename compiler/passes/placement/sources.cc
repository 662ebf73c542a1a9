#include "compiler/passes/placement/sources.h"

#include <algorithm>
#include <map>

#include "oneflow_core/unique_names.h"

namespace oneflow {
namespace {

class Copier {
 public:
  explicit Copier(Places& places)
      : places_(places), graph_(places.graph()), readers_(graph_.Consumers()), names_(graph_) {}

  // From last to first, because an annotation reads its source.
  void Run() {
    for (NodeId id = graph_.num_nodes() - 1; id >= 0; --id) {
      if (places_.IsSource(id)) Spread(id);
    }
  }

 private:
  // The nodes that read `source`, each once, in order.
  std::vector<NodeId> ReadersOf(NodeId source) const {
    std::vector<NodeId> readers;
    for (ValueId output : graph_.node(source).outputs) {
      readers.insert(readers.end(), readers_[output].begin(), readers_[output].end());
    }
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    return readers;
  }

  void Spread(NodeId source) {
    std::map<Placement, NodeId> copies;
    for (NodeId reader : ReadersOf(source)) {
      const Site location = *places_.at(reader);
      if (!places_.at(source).has_value()) places_.Put(source, location);
      if (places_.at(source)->placement == location.placement) continue;
      const auto [it, is_new] = copies.try_emplace(location.placement, -1);
      if (is_new) it->second = Copy(source, location);
      for (ValueId& input : graph_.node(reader).inputs) {
        if (places_.Producer(input) == source) input = graph_.node(it->second).outputs[graph_.value(input).output];
      }
    }
    if (!places_.at(source).has_value()) places_.Put(source, places_.stage(0));
  }

  // A node like `source` at `location`, with the same inputs.
  NodeId Copy(NodeId source, const Site& location) {
    Node node = graph_.node(source);
    node.name = names_.Make(absl::StrCat(node.name, "/pp", location.stage));
    std::vector<TensorType> types;
    for (ValueId output : node.outputs) types.push_back(graph_.value(output).type);
    const std::vector<ValueId> inputs = node.inputs;
    const NodeId copy = graph_.AddNode(std::move(node), types);
    for (size_t i = 0; i < types.size(); ++i) {
      graph_.value(graph_.node(copy).outputs[i]).hint = graph_.value(graph_.node(source).outputs[i]).hint;
    }
    readers_.resize(graph_.num_values());
    for (ValueId input : inputs) readers_[input].push_back(copy);
    places_.PutNew(location);
    return copy;
  }

  Places& places_;
  Graph& graph_;
  std::vector<std::vector<NodeId>> readers_;  // by value, with the copies made so far
  UniqueNames names_;
};

}  // namespace

void CopySources(Places& places) { Copier(places).Run(); }

}  // namespace oneflow
