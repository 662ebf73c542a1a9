// read-averages: graphs that are not trained read the moving averages of weights, where the job asks for it and a graph
// before them keeps one.
#include "absl/strings/str_cat.h"
#include "compiler/passes/passes.h"
#include "oneflow_core/optimizer_rules.h"

namespace oneflow {

absl::StatusOr<bool> ReadAverages(Graph& graph, PassContext& context) {
  if (graph.is_trained() || !context.options.average.evaluate) return false;
  bool changed = false;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (!context.ops.Is(node.op, OpKind::kVariable) || !node.attrs.Bool("trainable")) continue;
    const std::string average = absl::StrCat(node.name, "/", kAverageSuffix);
    if (context.variables.count(average) == 0) continue;  // it is frozen
    node.name = average;
    node.attrs.Set("trainable", false);
    node.attrs.Set("init", std::string("zeros"));
    changed = true;
  }
  return changed;
}

}  // namespace oneflow
