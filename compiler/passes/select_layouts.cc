// Writes the result of SBP selection into the graph.
#include "compiler/local_training.h"
#include "compiler/passes/passes.h"
#include "compiler/select/select_sbp.h"
#include "oneflow_core/ragged.h"
#include "oneflow_core/unique_names.h"

namespace oneflow {
namespace {

// Adds the boxings that a selection implies, one for all readers of the same type.
class Boxer {
 public:
  Boxer(Graph& graph, const OpRegistry& ops)
      : graph_(graph), ops_(ops), num_nodes_(graph.num_nodes()), names_(graph), boxed_(graph.num_values()) {}

  void Apply(const Selection& selection) {
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const Layout& layout = selection.layouts[id];
      const Node& node = graph_.node(id);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        graph_.value(node.outputs[i]).dist = DistType{*node.placement, layout.outputs[i]};
      }
    }
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const DistType wanted{*graph_.node(id).placement, {}};
      for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
        const ValueId boxed = Boxed(graph_.node(id).inputs[i], {wanted.placement, selection.layouts[id].inputs[i]});
        graph_.node(id).inputs[i] = boxed;
      }
    }
    graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
  }

 private:
  // `value` as `wanted`.
  ValueId Boxed(ValueId value, const DistType& wanted) {
    if (*graph_.value(value).dist == wanted) return value;
    for (ValueId known : boxed_[value]) {
      if (*graph_.value(known).dist == wanted) return known;
    }
    boxed_[value].push_back(NewBoxing(value, wanted));
    return boxed_[value].back();
  }

  ValueId NewBoxing(ValueId value, const DistType& wanted) {
    const Node& producer = graph_.node(graph_.value(value).producer);
    Node node;
    node.op = "boxing";
    const std::string output = graph_.value(value).output == 0 ? "" : absl::StrCat(":", graph_.value(value).output);
    const std::string moved =
        wanted.placement == *producer.placement ? "" : absl::StrCat("@", wanted.placement.ranks()[0]);
    node.name = names_.Make(absl::StrCat("box/", producer.name, output, "/", ToString(wanted.sbp), moved));
    node.inputs = WithCounts(graph_, value);
    return AddBoxing(graph_, std::move(node), producer, value, wanted, ops_);
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const int num_nodes_;
  UniqueNames names_;
  std::vector<std::vector<ValueId>> boxed_;  // by value: its boxed versions
};

}  // namespace

absl::StatusOr<bool> SelectLayouts(Graph& graph, PassContext& context) {
  OF_ASSIGN_OR_RETURN(const OwnAxis own, OwnAxisOf(context.options, graph));
  const SelectOptions options{graph.is_trained() ? context.options.micro_batches : 1,
                              context.options.variable_bytes_per_device,
                              context.options.memory_bytes_per_device,
                              RecomputedPieces(graph, context),
                              own,
                              context.options.rings};
  OF_ASSIGN_OR_RETURN(const Selection selection,
                      SelectSbp(graph, context.ops, context.topology, context.variables, options));
  for (const std::string& note : selection.notes) {
    context.warnings.push_back(absl::StrCat("graph '", graph.name(), "': ", note));
  }
  Boxer(graph, context.ops).Apply(selection);
  return true;
}

}  // namespace oneflow
