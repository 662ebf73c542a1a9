// check-replicas: a debugging aid. Whatever is B is compared between the ranks that hold it, before anyone reads it.
//
//   before   x (B)  -> reader        after   x -> replica_digest (S, one number per rank) -> boxing (B) -> d
//                                            x, d -> assert_replicas -> reader
//
// Readers come after the comparison, so the first error in the order of the data is the first that is found on its rank: it names the
// node whose kernel or signature is wrong, not one that it misled.
#include <algorithm>

#include "compiler/passes/passes.h"

namespace oneflow {
namespace {

class Checker {
 public:
  Checker(Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops), num_nodes_(graph.num_nodes()) {}

  bool Run() {
    bool changed = false;
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const Node node = graph_.node(id);
      if (ops_.Is(node.op, OpKind::kBoxing) || ops_.Is(node.op, OpKind::kAnnotation))
        continue;  // compared where they were made
      for (const ValueId output : node.outputs) changed = Check(node, output) || changed;
    }
    if (changed) graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
    return changed;
  }

 private:
  bool Check(const Node& producer, ValueId value) {
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
    const int output = graph_.value(value).output;
    const std::string stem = output == 0 ? producer.name : absl::StrCat(producer.name, ":", output);
    const TensorType type = graph_.value(value).type, digests{DType::kInt32, Shape(sizes)};
    const ValueId digest = Add(producer, value, "replica_digest", stem + "/digest", {value}, {{"shape", sizes}},
                               digests, {dist.placement, own});
    const ValueId all =
        Add(producer, value, "boxing", stem + "/digests", {digest}, {}, digests, {dist.placement, gathered});
    const ValueId checked = Add(producer, value, "assert_replicas", stem + "/replicas", {value, all}, {}, type, dist);
    const NodeId last = graph_.value(checked).producer;
    for (NodeId reader = 0; reader < graph_.num_nodes(); ++reader) {
      Node& node = graph_.node(reader);
      if (reader == last || node.name == stem + "/digest") continue;
      const std::vector<int>& mutates = ops_.Find(node.op)->mutates;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const bool overwrites = std::find(mutates.begin(), mutates.end(), static_cast<int>(i)) != mutates.end();
        if (node.inputs[i] == value && !overwrites) node.inputs[i] = checked;
      }
    }
    std::replace(graph_.losses.begin(), graph_.losses.end(), value, checked);
    return true;
  }

  ValueId Add(const Node& producer, ValueId checked, absl::string_view op, const std::string& name,
              std::vector<ValueId> inputs, AttrMap attrs, const TensorType& type, const DistType& dist) {
    Node node;
    node.op = std::string(op);
    node.name = name;
    node.attrs = std::move(attrs);
    node.inputs = std::move(inputs);
    node.source = producer.source;
    CopyProvenance(producer, node);
    node.rate = ValueRate(graph_, checked);
    node.placement = producer.placement;
    const NodeId id = graph_.AddNode(std::move(node), {type});
    graph_.value(graph_.node(id).outputs[0]).dist = dist;
    return graph_.node(id).outputs[0];
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const int num_nodes_;
};

}  // namespace

absl::StatusOr<bool> CheckReplicas(Graph& graph, PassContext& context) {
  if (!context.options.check_replicas) return false;
  return Checker(graph, context.ops).Run();
}

}  // namespace oneflow
