// check-replicas: a debugging aid. Every B value is compared between the ranks that hold it, before anyone reads it.
//
//   before   x (B)  -> reader        after   x -> replica_digest (S, one number per rank) -> boxing (B) -> d
//                                            x, d -> assert_replicas -> reader
//
// Readers come after the comparison. So the first error in the order of the data is the first that is found on its
// rank: it names the node whose kernel or signature is wrong, not a reader of it.
#include <algorithm>

#include "compiler/passes/passes.h"
#include "oneflow_core/unique_names.h"

namespace oneflow {
namespace {

class Checker {
 public:
  Checker(Graph& graph, const OpRegistry& ops)
      : graph_(graph), ops_(ops), num_nodes_(graph.num_nodes()), readers_(graph.Consumers()), names_(graph) {}

  bool Run() {
    bool changed = false;
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const OpKind kind = ops_.KindOf(graph_.node(id).op);
      if (kind == OpKind::kBoxing || kind == OpKind::kAnnotation) continue;  // compared where they were made
      const std::vector<ValueId> outputs = graph_.node(id).outputs;
      for (const ValueId output : outputs) changed = Check(output) || changed;
    }
    if (changed) graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
    return changed;
  }

 private:
  // Lets all readers of `value` wait for a comparison of its copies, if there are any. Returns whether there are.
  bool Check(ValueId value) {
    if (graph_.value(value).type.is_ragged()) return false;  // behind its rows copies may differ
    const DistType dist = *graph_.value(value).dist;
    const std::vector<Axis>& axes = dist.placement.axes();
    std::vector<int64_t> sizes;
    NdSbp own, gathered;
    bool copied = false;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      sizes.push_back(axes[axis].size);
      own.push_back(Sbp::Split(static_cast<int>(axis)));
      const bool copies = dist.sbp[axis].is_broadcast() && axes[axis].size > 1;
      gathered.push_back(copies ? Sbp::Broadcast() : own.back());
      copied = copied || copies;
    }
    if (!copied) return false;
    const TensorType type = graph_.value(value).type, digests{DType::kInt32, Shape(sizes)};
    const ValueId digest =
        Add(value, "replica_digest", "digest", {value}, {{"shape", sizes}}, digests, {dist.placement, own});
    const ValueId all = Add(value, "boxing", "digests", {digest}, {}, digests, {dist.placement, gathered});
    Redirect(value, Add(value, "assert_replicas", "replicas", {value, all}, {}, type, dist));
    return true;
  }

  // Makes all readers of `value`, except those that overwrite it, read `checked`.
  void Redirect(ValueId value, ValueId checked) {
    for (const NodeId reader : readers_[value]) {
      Node& node = graph_.node(reader);
      const std::vector<int>& mutates = ops_.Find(node.op)->mutates;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const bool overwrites = std::find(mutates.begin(), mutates.end(), static_cast<int>(i)) != mutates.end();
        if (node.inputs[i] == value && !overwrites) node.inputs[i] = checked;
      }
    }
    std::replace(graph_.losses.begin(), graph_.losses.end(), value, checked);
  }

  // A node that is part of the comparison of `of`; `what` ends its name.
  ValueId Add(ValueId of, absl::string_view op, absl::string_view what, std::vector<ValueId> inputs, AttrMap attrs,
              const TensorType& type, const DistType& dist) {
    const Node& producer = graph_.node(graph_.value(of).producer);
    const int output = graph_.value(of).output;
    Node node;
    node.op = std::string(op);
    node.name = names_.Make(absl::StrCat(producer.name, output == 0 ? "" : absl::StrCat(":", output), "/", what));
    node.attrs = std::move(attrs);
    node.inputs = std::move(inputs);
    node.source = producer.source;
    CopyProvenance(producer, node);
    node.rate = ValueRate(graph_, of, ops_);
    node.placement = producer.placement;
    const NodeId id = graph_.AddNode(std::move(node), {type});
    graph_.value(graph_.node(id).outputs[0]).dist = dist;
    return graph_.node(id).outputs[0];
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const int num_nodes_;
  const std::vector<std::vector<NodeId>> readers_;  // before any comparison was added
  UniqueNames names_;
};

}  // namespace

absl::StatusOr<bool> CheckReplicas(Graph& graph, PassContext& context) {
  if (!context.options.check_replicas) return false;
  return Checker(graph, context.ops).Run();
}

}  // namespace oneflow
