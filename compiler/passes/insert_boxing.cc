// From boxings as wishes to boxings as steps. `to` nodes are dissolved first, so that a boxing behind a `to` and one
// beside it start from the same value and can share steps.
#include <map>
#include <set>

#include "compiler/passes/passes.h"
#include "sbp/boxing.h"

namespace oneflow {
namespace {

class StepInserter {
 public:
  StepInserter(Graph& graph, const Topology& topology)
      : graph_(graph), topology_(topology), num_nodes_(graph.num_nodes()), num_values_(graph.num_values()) {
    for (NodeId id = 0; id < num_nodes_; ++id) names_.insert(graph.node(id).name);
  }

  // Nodes are visited in order, so what a node reads is final when its turn comes.
  absl::Status Run() {
    std::vector<ValueId> final_value(num_values_);
    std::vector<bool> keep(num_nodes_, true);
    for (NodeId id = 0; id < num_nodes_; ++id) {
      for (ValueId& input : graph_.node(id).inputs) input = final_value[input];
      for (ValueId output : graph_.node(id).outputs) final_value[output] = output;
      const std::string op = graph_.node(id).op;
      if (op != "to" && op != "boxing") continue;
      const ValueId output = graph_.node(id).outputs[0];
      OF_ASSIGN_OR_RETURN_AT(final_value[output], Way(graph_.node(id).inputs[0], id), Where(graph_.node(id)));
      keep[id] = false;
    }
    for (ValueId& loss : graph_.losses) loss = final_value[loss];
    keep.resize(graph_.num_nodes(), true);
    graph_.Rebuild(keep);
    return absl::OkStatus();
  }

 private:
  // The value that arrives as what `node` gives, by steps from `value`; for a `to`, whose ends lie alike, `value`
  // itself.
  absl::StatusOr<ValueId> Way(ValueId value, NodeId node) {
    const DistType wanted = *graph_.value(graph_.node(node).outputs[0]).dist;
    OF_ASSIGN_OR_RETURN(const std::vector<DistType> path,
                        BoxingPath(graph_.value(value).type, *graph_.value(value).dist, wanted, topology_));
    for (const DistType& step : path) value = Step(value, step, node);
    return value;
  }

  // One step from `value`; the one that is there already if another way began alike.
  ValueId Step(ValueId value, const DistType& to, NodeId like) {
    const auto [it, inserted] = steps_.emplace(std::make_pair(value, to.ToString()), -1);
    if (!inserted) return it->second;
    const Node& wish = graph_.node(like);
    Node node;
    node.op = "boxing";
    node.name = StepName(wish, to);
    node.inputs = {value};
    node.source = wish.source;
    CopyProvenance(wish, node);
    node.rate = ValueRate(graph_, value);
    node.placement = to.placement;
    const TensorType type = graph_.value(value).type;
    const NodeId id = graph_.AddNode(std::move(node), {type});
    graph_.value(graph_.node(id).outputs[0]).dist = to;
    it->second = graph_.node(id).outputs[0];
    return it->second;
  }

  // "box/<producer>/<last type>" for the last step; the steps before it say their own type behind that.
  std::string StepName(const Node& wish, const DistType& to) {
    const DistType& last = *graph_.value(wish.outputs[0]).dist;
    const std::string stem = to == last ? wish.name : absl::StrCat(wish.name, "/by", ToString(to.sbp));
    std::string name = stem;
    for (int i = 2; to != last && !names_.insert(name).second; ++i) name = absl::StrCat(stem, "_", i);
    return name;
  }

  Graph& graph_;
  const Topology& topology_;
  const int num_nodes_, num_values_;
  std::set<std::string> names_;
  std::map<std::pair<ValueId, std::string>, ValueId> steps_;
};

}  // namespace

absl::StatusOr<bool> InsertBoxing(Graph& graph, PassContext& context) {
  OF_RETURN_IF_ERROR(StepInserter(graph, context.topology).Run());
  return true;
}

}  // namespace oneflow
