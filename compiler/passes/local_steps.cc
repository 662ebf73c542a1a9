// What a graph needs where ranks along an axis train by themselves: see local_training.h.
#include "compiler/local_training.h"
#include "compiler/passes/passes.h"
#include "compiler/select/own_values.h"
#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/graph_editor.h"
#include "oneflow_core/variable_role.h"

namespace oneflow {
namespace {

int64_t GroupsOf(const PassContext& context, const Graph& graph, const std::string& axis) {
  return context.options.MeshOf(graph.name()).mesh().AxisSize(axis);
}

// What a step overwrites of the model.
void NameLocal(Graph& graph, const OpRegistry& ops) {
  std::vector<bool> is_overwritten(graph.num_nodes(), false);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (const int input : ops.Find(graph.node(id).op)->mutates) {
      is_overwritten[graph.value(graph.node(id).inputs[input]).producer] = true;
    }
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (!is_overwritten[id] || !IsOfModel(RoleOfVariable(node.attrs))) continue;
    absl::StrAppend(&node.name, kLocalSuffix);
    node.attrs.Set("init", std::string("zeros"));
    for (const char* mark : {"trainable", "statistic", "adapter"}) {
      if (node.attrs.Has(mark)) node.attrs.Set(mark, false);
    }
  }
}

// Each group reads a part of the data of its own; which, is known where programs are written.
absl::Status DividePartsOfData(Graph& graph, const OpRegistry& ops, int64_t groups) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (!ops.Is(node.op, OpKind::kData)) continue;
    const std::string dataset = node.attrs.String("dataset");
    OF_ASSIGN_OR_RETURN_AT(const DataKind kind, FindDataKind(dataset), Where(node));
    if (!kind.has_parts) {
      return absl::InvalidArgumentError(absl::StrCat(Where(node),
                                                     ": groups are to read parts of their own (own_data), "
                                                     "but '",
                                                     dataset, "' cannot be read in parts"));
    }
    node.attrs.Set("part", int64_t{0});
    node.attrs.Set("parts", groups);
  }
  return absl::OkStatus();
}

// Fetches hand over means.
absl::StatusOr<Graph> FetchMeans(Graph graph, const PassContext& context, const OwnAxis& own) {
  const OwnValues values(graph, context.ops, context.variables, own);
  const int64_t groups = GroupsOf(context, graph, own.name);
  const int num_nodes = graph.num_nodes();
  GraphEditor editor(context.ops, std::move(graph));
  for (NodeId id = 0; id < num_nodes; ++id) {
    const Node node = editor.graph().node(id);
    if (!context.ops.Is(node.op, OpKind::kFetch) || !values.Has(node.inputs[0], own.name)) continue;
    const Tensor x(&editor, node.inputs[0]);
    if (x.type().dtype != DType::kFloat32) {
      return absl::InvalidArgumentError(absl::StrCat(Where(node), ": fetches ", x.type().ToString(),
                                                     ", of which every rank along '", own.name,
                                                     "' has its own; only f32 has a mean"));
    }
    editor.Imitate(node);
    const GraphBuilder::Scope scope(editor, node.name);
    const Tensor mean = MeanOfOwn(editor, x, own.name, groups);
    if (!editor.status().ok()) break;
    editor.mutable_graph().node(id).inputs[0] = mean.id();
  }
  return editor.Finish();
}

}  // namespace

absl::StatusOr<bool> MeanGradients(Graph& graph, PassContext& context) {
  OF_ASSIGN_OR_RETURN(const OwnAxis own, OwnAxisOf(context.options, graph));
  if (!own.graph_is_own || context.options.local_training->exact.count(graph.name()) == 0) return false;
  const int64_t groups = GroupsOf(context, graph, own.name);
  const std::vector<ValueId> gradients = VariableGradients(graph);
  GraphEditor editor(context.ops, std::move(graph));
  for (NodeId id = 0; id < static_cast<NodeId>(gradients.size()); ++id) {
    if (gradients[id] < 0) continue;
    const Node variable = editor.graph().node(id);
    editor.set_source(variable.source);
    editor.set_placement_hint(variable.at);
    editor.set_role(Role::kReduction, -1, id);
    const GraphBuilder::Scope scope(editor, absl::StrCat(variable.name, "/mean"));
    Tensor gradient(&editor, gradients[id]);
    if (gradient.type().dtype != DType::kFloat32) gradient = editor.Op1("cast", {gradient}, {{"dtype", "f32"}});
    MeanOfOwn(editor, gradient, own.name, groups);
  }
  OF_ASSIGN_OR_RETURN(graph, editor.Finish());
  return true;
}

absl::StatusOr<bool> LocalSteps(Graph& graph, PassContext& context) {
  OF_ASSIGN_OR_RETURN(const OwnAxis own, OwnAxisOf(context.options, graph));
  if (!own.graph_is_own) return false;
  NameLocal(graph, context.ops);
  if (context.options.local_training->own_data) {
    OF_RETURN_IF_ERROR(DividePartsOfData(graph, context.ops, GroupsOf(context, graph, own.name)));
  }
  OF_ASSIGN_OR_RETURN(graph, FetchMeans(std::move(graph), context, own));
  graph.Rebuild(std::vector<bool>(graph.num_nodes(), true));
  return true;
}

}  // namespace oneflow
