// Synchronous dataflow with two rates. Micro-batch rate starts at nodes that differ between micro-batches (data, random
// numbers) and flows to every reader; `accumulate` is the only way back to step rate. An update draws once a step.
#include <algorithm>
#include <numeric>

#include "compiler/passes/passes.h"

namespace oneflow {
namespace {

// Lets readers of each `accumulate` read its input, and drops it. Of ragged rows they read those of one micro-batch,
// padded.
void DropAccumulates(Graph& graph, const OpRegistry& ops) {
  std::vector<bool> keep(graph.num_nodes(), true);
  std::vector<ValueId> instead(graph.num_values());
  std::iota(instead.begin(), instead.end(), 0);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (!ops.Is(node.op, OpKind::kAccumulate)) continue;
    if (graph.value(node.inputs[0]).type.is_ragged()) {
      node.op = "pad_rows";
      continue;
    }
    instead[node.outputs[0]] = instead[node.inputs[0]];
    keep[id] = false;
  }
  if (std::find(keep.begin(), keep.end(), false) == keep.end()) return;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (ValueId& input : graph.node(id).inputs) input = instead[input];
  }
  for (ValueId& loss : graph.losses) loss = instead[loss];
  graph.Rebuild(keep);
}

}  // namespace

std::vector<bool> DependsOnMicroBatch(const Graph& graph, const OpRegistry& ops) {
  std::vector<bool> varies(graph.num_nodes(), false);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const OpDef* const op = ops.Find(node.op);
    varies[id] = op->kind == OpKind::kData || (op->random && !IsUpdate(node));
    for (ValueId input : node.inputs) {
      const NodeId producer = graph.value(input).producer;
      varies[id] = varies[id] || (varies[producer] && !ops.Is(graph.node(producer).op, OpKind::kAccumulate));
    }
  }
  return varies;
}

absl::StatusOr<bool> AssignRates(Graph& graph, PassContext& context) {
  const int micro_batches = context.options.micro_batches;
  const bool one_rate = !graph.is_trained() || micro_batches == 1;
  if (one_rate) {
    for (NodeId id = 0; id < graph.num_nodes(); ++id) graph.node(id).rate = Rate::kStep;
    DropAccumulates(graph, context.ops);
    return true;
  }
  const std::vector<bool> varies = DependsOnMicroBatch(graph, context.ops);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    node.rate = varies[id] ? Rate::kMicroBatch : Rate::kStep;
    OF_ASSIGN_OR_RETURN(const OpDef* const op, context.ops.Get(node.op));
    if (varies[id] && !op->mutates.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Where(node), ": would overwrite a variable once in each of ", micro_batches,
                       " micro-batches, whose order is not defined; use one micro-batch per step"));
    }
    if (op->kind == OpKind::kAccumulate && !varies[id]) {  // the same addend k times
      if (graph.value(node.inputs[0]).type.is_ragged()) {
        return absl::UnimplementedError(absl::StrCat(Where(node), ": sums ragged rows over ", micro_batches,
                                                     " micro-batches that all have the same ones; scale them instead"));
      }
      node.op = "scale";
      node.attrs.Set("alpha", static_cast<double>(micro_batches));
    }
  }
  return true;
}

}  // namespace oneflow
