#include "tools/job/data.h"

#include <vector>

#include "actor/data/source.h"
#include "oneflow_core/data/data_kind.h"

namespace oneflow {
namespace {

// Whether the node hands its first input on as it is, but for how it lies.
bool HandsOn(const Node& node) { return node.op == "to" || node.op == "reshape" || node.op == "identity"; }

// The op that says of labels how many classes there are: logits, labels -> loss.
bool IsLoss(const Node& node) { return node.op == "softmax_cross_entropy"; }

}  // namespace

int64_t ClassesOf(const Graph& graph, ValueId labels) {
  std::vector<bool> is_labels(static_cast<size_t>(graph.num_values()), false);
  is_labels[labels] = true;
  // An author's graph is in an order in which values come before their readers.
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (HandsOn(node) && !node.inputs.empty() && is_labels[node.inputs[0]]) is_labels[node.outputs[0]] = true;
    if (IsLoss(node) && node.inputs.size() == 2 && is_labels[node.inputs[1]]) {
      const Shape& logits = graph.value(node.inputs[0]).type.shape;
      return logits.rank() > 0 ? logits[logits.rank() - 1] : 0;
    }
  }
  return 0;
}

absl::Status PrepareData(uint64_t seed, const SourcedConfig& config, bool open, Program& program) {
  for (Graph& graph : program) {
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      Node& node = graph.node(id);
      if (node.op != "read_data") continue;
      node.attrs.Set("seed", static_cast<int64_t>(seed));
      if (const double ms = config.config.data().least_read_ms(); ms > 0) node.attrs.Set("least_ms", ms);
      OF_ASSIGN_OR_RETURN_AT(const DataKind kind, FindDataKind(node.attrs.String("dataset")), config.Where("data"));
      if (kind.labels >= 0 && node.attrs.Int("classes", 0) == 0) {
        if (const int64_t classes = ClassesOf(graph, node.outputs[kind.labels]); classes > 0)
          node.attrs.Set("classes", classes);
      }
      if (!open) continue;
      OF_RETURN_IF_ERROR_AT(OpenSource(node.attrs).status(), config.Where("data"));
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
