// expand-composites and fuse-composites: ops along the classes, in parts and whole, by the rows of the table of fusions
// that are composites (oneflow_core/fusions.h).
//
// A softmax over n classes needs the maximum and the sum of its row. As one op it needs all classes in one place. In
// parts, the maximum is a reduction (P(max) where classes are split) and so is the sum (P), and only these two numbers
// per row travel, never the row. So selection sees the parts, whose signatures follow from their factor rules. Where it
// left them together without a boxing in between, one fused kernel does the same in fewer passes over the row.
//
// The whole and the last part are one node under two ops: it keeps its name, its outputs and its hints.
#include <algorithm>
#include <map>

#include "compiler/passes/apply_fusions.h"
#include "compiler/passes/passes.h"
#include "oneflow_core/fused_form.h"
#include "oneflow_core/graph_editor.h"

namespace oneflow {
namespace {

template <typename Predicate>
const Fusion* FindComposite(Predicate predicate) {
  for (const Fusion& fusion : Fusions()) {
    if (fusion.row->composite && predicate(fusion)) return &fusion;
  }
  return nullptr;
}

// Adds the parts of node `id` and makes it the last of them.
void Expand(GraphEditor& builder, NodeId id, const Fusion& composite) {
  const Node node = builder.graph().node(id);
  builder.Imitate(node);
  const NodeId first_new = builder.graph().num_nodes();
  std::map<std::string, Tensor> values;
  TypesByName types;
  const auto add = [&](const std::string& name, const Tensor& value) {
    values[name] = value;
    types[name] = value.type();
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) add(composite.whole.inputs[i], Tensor(&builder, node.inputs[i]));
  for (const PatternCall& part : composite.parts) {
    std::vector<Tensor> inputs;
    for (const std::string& name : part.inputs) inputs.push_back(values.at(name));
    if (&part == &composite.parts.back()) {
      Node& last = builder.mutable_graph().node(id);
      last.op = part.op;
      last.inputs.clear();
      for (const Tensor& input : inputs) last.inputs.push_back(input.id());
      continue;
    }
    const std::vector<Tensor> outputs =
        builder.Op(part.op, inputs, AttributesOfPart(part, node.attrs, types), std::source_location::current(),
                   absl::StrCat(node.name, "/", part.op));
    for (size_t i = 0; i < outputs.size(); ++i) add(part.outputs[i], outputs[i]);
  }
  Graph& graph = builder.mutable_graph();
  for (NodeId added = first_new; added < graph.num_nodes(); ++added) graph.node(added).placement = node.placement;
}

// Whether the classes of a node may be split later: there are other ranks, and its rows are not ragged.
bool MayBeSplit(const Graph& graph, const Node& node) {
  const TensorType& rows = graph.value(node.inputs[0]).type;
  return !node.placement->axes().empty() && rows.shape.count() > 0 && !rows.is_ragged();
}

}  // namespace

absl::StatusOr<bool> ExpandComposites(Graph& graph, PassContext& context) {
  bool changed = false;
  const int num_nodes = graph.num_nodes();
  GraphEditor builder(context.ops, std::move(graph));
  for (NodeId id = 0; id < num_nodes; ++id) {
    const std::string op = builder.graph().node(id).op;
    const Fusion* const composite = FindComposite([&](const Fusion& it) { return it.whole.op == op; });
    if (composite == nullptr || !MayBeSplit(builder.graph(), builder.graph().node(id))) continue;
    Expand(builder, id, *composite);
    changed = true;
  }
  OF_ASSIGN_OR_RETURN(graph, builder.Finish());
  if (changed) graph.Rebuild(std::vector<bool>(graph.num_nodes(), true));
  return changed;
}

absl::StatusOr<bool> FuseComposites(Graph& graph, PassContext& context) {
  return ApplyFusions(graph, context.ops, [](const FusionRow& row) { return row.composite; });
}

}  // namespace oneflow
