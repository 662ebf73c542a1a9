#include "compiler/explain/gradients.h"

#include "compiler/passes/passes.h"

namespace oneflow {
namespace {

// Searches the differentiated graph, where nothing is fused, dropped or boxed yet.
class GradientFinder {
 public:
  explicit GradientFinder(const GraphFacts& facts)
      : facts_(facts),
        graph_(facts.differentiated),
        of_variable_(VariableGradients(graph_)),
        serving_(graph_.num_nodes()) {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (IsBackward(node) && node.role != Role::kReduction && node.forward >= 0) serving_[node.forward].push_back(id);
    }
  }

  // The gradient of output `output` of the forward node `node`, or -1.
  ValueId Find(NodeId node, int output) const {
    if (facts_.Is(graph_.node(node), OpKind::kVariable)) return OfVariable(node);
    const std::vector<ValueId>& outputs = graph_.node(node).outputs;
    const TensorType& type = graph_.value(outputs[output]).type;
    // Of outputs of one type the first is the op's result; the others are statistics, kept for the backward nodes.
    if (output > 0 && type == graph_.value(outputs[0]).type) return -1;
    for (NodeId id : serving_[node]) {
      if (const ValueId gradient = ReadFromBehind(graph_.node(id), type); gradient >= 0) return gradient;
    }
    return -1;
  }

 private:
  ValueId OfVariable(NodeId variable) const {
    const ValueId gradient = of_variable_[variable];
    if (gradient < 0) return -1;
    // With one micro-batch per step nothing is accumulated: the one contribution is the gradient.
    const Node& sum = graph_.node(graph_.value(gradient).producer);
    const bool kept = !facts_.Is(sum, OpKind::kAccumulate) || facts_.micro_batches > 1;
    return kept ? gradient : sum.inputs[0];
  }

  // The input of `reader`, which serves a forward node, that has the type `type` and comes from the nodes behind that;
  // if it adds several such inputs, their sum.
  ValueId ReadFromBehind(const Node& reader, const TensorType& type) const {
    for (ValueId input : reader.inputs) {
      const Node& producer = graph_.node(graph_.value(input).producer);
      if (!IsBackward(producer) || producer.forward == reader.forward || graph_.value(input).type != type) continue;
      return facts_.ops->Find(reader.op)->is_sum ? reader.outputs[0] : input;
    }
    return -1;
  }

  const GraphFacts& facts_;
  const Graph& graph_;
  const std::vector<ValueId> of_variable_;    // by node
  std::vector<std::vector<NodeId>> serving_;  // by forward node: the backward ones that serve it
};

}  // namespace

std::vector<ValueId> FindGradients(const GraphFacts& facts) {
  std::vector<ValueId> gradients(facts.boxed.num_values(), -1);
  if (!facts.differentiated.is_trained()) return gradients;
  const GradientFinder finder(facts);
  const std::vector<ValueId> before = SameValues(facts.boxed, facts.differentiated);
  const std::vector<ValueId> after = SameValues(facts.differentiated, facts.boxed);
  for (ValueId value = 0; value < facts.boxed.num_values(); ++value) {
    if (before[value] < 0) continue;
    const Value& it = facts.differentiated.value(before[value]);
    if (!IsForward(facts.differentiated.node(it.producer))) continue;
    const ValueId gradient = finder.Find(it.producer, it.output);
    if (gradient >= 0) gradients[value] = after[gradient];
  }
  return gradients;
}

}  // namespace oneflow
