#include "compiler/node_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/ragged.h"
#include "sbp/signatures.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

// Along an axis on which any operand is split, the ranks share the work; otherwise they repeat it.
double Workers(const Layout& layout, const std::vector<Axis>& axes) {
  double workers = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto split = [i](const NdSbp& sbp) { return sbp[i].is_split(); };
    if (std::any_of(layout.inputs.begin(), layout.inputs.end(), split) ||
        std::any_of(layout.outputs.begin(), layout.outputs.end(), split)) {
      workers *= axes[i].size;
    }
  }
  return workers;
}

std::string JoinLayouts(const std::vector<NdSbp>& layouts) {
  return absl::StrJoin(layouts, ",", [](std::string* out, const NdSbp& sbp) { out->append(ToString(sbp)); });
}

double Bytes(const std::vector<TensorType>& types) {
  double bytes = 0;
  for (const TensorType& type : types) bytes += static_cast<double>(type.num_bytes());
  return bytes;
}

}  // namespace

double Parts(const NdSbp& sbp, const std::vector<Axis>& axes) {
  double parts = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sbp[i].is_split()) parts *= axes[i].size;
  }
  return parts;
}

std::string Layout::ToString() const { return absl::StrCat(JoinLayouts(inputs), "->", JoinLayouts(outputs)); }

std::vector<TensorType> NodeView::TypesOf(const std::vector<ValueId>& values) const {
  std::vector<TensorType> types;
  for (const ValueId value : values) types.push_back(graph_.value(value).type);
  return types;
}

Layout NodeView::LayoutOf(const Graph& graph, const Node& node) {
  Layout layout;
  for (const ValueId input : node.inputs) layout.inputs.push_back(graph.value(input).dist->sbp);
  for (const ValueId output : node.outputs) layout.outputs.push_back(graph.value(output).dist->sbp);
  return layout;
}

NodeWork NodeView::work() const {
  const std::vector<TensorType> inputs = input_types(), outputs = output_types();
  return {FlopsOf(op_, inputs, outputs, node_.attrs), Bytes(inputs) + Bytes(outputs)};
}

NodeWork NodeView::largest_share() const {
  const auto shards = [&](const std::vector<ValueId>& values) {
    std::vector<TensorType> types;
    for (const ValueId id : values) types.push_back(LargestShard(graph_.value(id).type, *graph_.value(id).dist));
    return types;
  };
  const std::vector<TensorType> inputs = shards(node_.inputs), outputs = shards(node_.outputs);
  return {FlopsOf(op_, inputs, outputs, node_.attrs), Bytes(inputs) + Bytes(outputs)};
}

NodeWork NodeView::even_share(const Layout& layout) const {
  const std::vector<Axis>& axes = node_.placement->axes();
  NodeWork share;
  const auto add = [&](const std::vector<TensorType>& types, const std::vector<NdSbp>& sbps) {
    for (size_t i = 0; i < types.size(); ++i) {
      share.bytes += static_cast<double>(types[i].num_bytes()) / Parts(sbps[i], axes);
    }
  };
  const std::vector<TensorType> inputs = input_types(), outputs = output_types();
  add(inputs, layout.inputs);
  add(outputs, layout.outputs);
  share.flops = FlopsOf(op_, inputs, outputs, node_.attrs) / Workers(layout, axes);
  return share;
}

absl::Status NodeView::CheckLayout(const Layout& layout, const Placement& placement) const {
  std::vector<int> sizes;
  std::vector<Signature> per_axis;
  for (size_t axis = 0; axis < placement.axes().size(); ++axis) {
    sizes.push_back(placement.axes()[axis].size);
    per_axis.emplace_back();
    for (const NdSbp& sbp : layout.inputs) per_axis.back().inputs.push_back(sbp[axis]);
    for (const NdSbp& sbp : layout.outputs) per_axis.back().outputs.push_back(sbp[axis]);
  }
  return CheckNdSignature(op_, input_types(), output_types(), node_.attrs, sizes, per_axis);
}

bool TryReplace(Graph& graph, NodeId id, Node with, const OpRegistry& ops) {
  const OpDef* const op = ops.Find(with.op);
  if (op == nullptr) return false;
  const NodeView view(graph, with, *op);
  const auto types = InferTypes(*op, {view.input_types(), with.attrs});
  if (!types.ok() || *types != view.output_types()) return false;
  if (!view.CheckLayout(view.layout(), *with.placement).ok()) return false;
  graph.node(id) = std::move(with);
  return true;
}

}  // namespace oneflow
