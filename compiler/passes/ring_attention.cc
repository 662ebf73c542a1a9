// ring-attention: attention over tokens that lie split along an axis (Liu et al., "Ring Attention with Blockwise
// Transformers", 2023). Ranks in a ring of p have one chunk of the queries and of the keys each. At step j rank r has
// the keys of rank r - j, and adds what its queries read of them:
//
//   q, k, v ─► attention ─► out, lse ─────────────────────────────────► merge ─► merge ─► ...
//      k, v ─► boxing to rank r+1 ─► attention with q ─► out, lse ───────┘         │
//      k, v ─► boxing to rank r+2 ─► ...                                           ┘
//
// A value of which each rank has another's part is an ordinary one: it lies on a placement of the same ranks in another
// order, so that kernels know by the place of their operands which tokens these are.
//
// Under a causal mask only keys of earlier chunks are read, so that rank r has r + 1 of p steps to do. Where step j
// gives a rank nothing, it computes for the rank whose keys lie j behind its own, from the other side of the ring,
// instead (Li et al., "DistFlashAttn", 2024): queries go on by j ranks as well, and what they read of the keys there
// goes back.
//
//   step j <= p/2    ranks r >= j    queries of r, keys of r - j      ranks r < j    queries of r - j + p, keys of r
//
// Each rank does as much in each step. Halfway round both sides would do the same: each takes half of the heads. A
// window makes the steps few.
//
// Gradients go the same ways, those of keys and queries back to where these are, to be added. Sums and means are f32.
#include <algorithm>
#include <utility>

#include "compiler/passes/passes.h"
#include "compiler/ring.h"
#include "oneflow_core/unique_names.h"

namespace oneflow {
namespace {

// Of the parts of a step, at most so many are under way beside the one that is computed.
constexpr size_t kRingAhead = 1;

class RingWriter {
 public:
  RingWriter(Graph& graph, const PassContext& context)
      : graph_(graph), ops_(context.ops), names_(graph), num_nodes_(graph.num_nodes()) {}

  bool Run() {
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const OpDef& op = *ops_.Find(graph_.node(id).op);
      const std::vector<int> axes =
          RingAxes(op, NodeView::LayoutOf(graph_, graph_.node(id)), *graph_.node(id).placement);
      if (!axes.empty()) Write(id, op, axes);
    }
    if (graph_.num_nodes() == num_nodes_) return false;
    graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
    return true;
  }

 private:
  const DistType& DistOf(ValueId value) const { return *graph_.value(value).dist; }
  const TensorType& TypeOf(ValueId value) const { return graph_.value(value).type; }

  void Write(NodeId id, const OpDef& op, const std::vector<int>& axes) {
    const Node whole = graph_.node(id);
    const std::vector<RingSide> sides = op.ring(whole.inputs.size(), whole.outputs.size());
    const std::vector<RingPart> parts = PartsOfRing(NodeView(graph_, id, ops_), axes);
    if (parts.empty()) return;  // each token sees itself alone

    std::vector<ValueId> sums = whole.outputs;  // first of each rank's own chunks
    std::vector<ValueId> ends;                  // of the parts so far: an output each
    for (const RingPart& part : parts) {
      Node node = whole;
      node.serial = -1;
      node.name =
          names_.Make(absl::StrCat(whole.name, "/", part.moves == RingSide::kKeys ? "keys" : "queries", part.step));
      if (part.share > 0) node.attrs.Set("share", int64_t{part.share});
      const Placement there = Turned(*whole.placement, axes, part.step);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (sides[i] == part.moves) node.inputs[i] = Moved(whole.inputs[i], there, whole, node, ends);
      }
      const NodeId added = graph_.AddNode(node, OutputTypes(whole));
      for (size_t i = 0; i < whole.outputs.size(); ++i) {
        const bool moved = sides[whole.inputs.size() + i] == part.moves;
        graph_.value(graph_.node(added).outputs[i]).dist = {moved ? there : *whole.placement,
                                                            DistOf(whole.outputs[i]).sbp};
      }
      const std::vector<ValueId> outputs = graph_.node(added).outputs;
      ends.push_back(outputs[0]);
      std::vector<ValueId> back;
      for (const ValueId output : outputs) {
        const bool moved = DistOf(output).placement != *whole.placement;
        back.push_back(moved ? Move(output, *whole.placement, whole, "back") : output);
        if (moved) graph_.node(graph_.value(back.back()).producer).after = {output};
      }
      sums = op.merged_by.empty() ? Add(sums, back, whole) : Merge(sums, back, op.merged_by, whole);
    }
    for (size_t i = 0; i < sums.size(); ++i) Replace(whole.outputs[i], sums[i], whole);
  }

  std::vector<TensorType> OutputTypes(const Node& node) const {
    std::vector<TensorType> types;
    for (const ValueId output : node.outputs) types.push_back(TypeOf(output));
    return types;
  }

  ValueId Moved(ValueId value, const Placement& there, const Node& whole, const Node& reader,
                const std::vector<ValueId>& ends) {
    const ValueId moved = Move(value, there, reader, "from the ring");
    // It comes when the rank has its own, and in backward the gradient too, so that its place is free until then.
    std::vector<ValueId>& after = graph_.node(graph_.value(moved).producer).after;
    after = {value};
    for (const ValueId input : whole.inputs) {
      if (input != value && IsBackward(graph_.node(graph_.value(input).producer))) after.push_back(input);
    }
    if (ends.size() > kRingAhead) after.push_back(ends[ends.size() - 1 - kRingAhead]);
    return moved;
  }

  ValueId Move(ValueId value, const Placement& to, const Node& like, const char* what) {
    Node node;
    node.op = "boxing";
    node.name = names_.Make(absl::StrCat(like.name, "/", what));
    node.inputs = {value};
    const ValueId moved = AddBoxing(graph_, std::move(node), like, value, {to, DistOf(value).sbp}, ops_);
    graph_.node(graph_.value(moved).producer).placement = like.placement;
    return moved;
  }

  std::vector<ValueId> AddLike(const char* op, const Node& like, std::vector<ValueId> inputs, AttrMap attrs,
                               const std::vector<TensorType>& types, const std::vector<DistType>& dists) {
    Node node;
    node.op = op;
    node.name = names_.Make(absl::StrCat(like.name, "/", op));
    node.attrs = std::move(attrs);
    node.inputs = std::move(inputs);
    node.source = like.source;
    CopyProvenance(like, node);
    node.rate = like.rate;
    node.placement = like.placement;
    const NodeId id = graph_.AddNode(std::move(node), types);
    for (size_t i = 0; i < dists.size(); ++i) graph_.value(graph_.node(id).outputs[i]).dist = dists[i];
    return graph_.node(id).outputs;
  }

  ValueId Cast(ValueId value, DType dtype, const Node& like) {
    if (TypeOf(value).dtype == dtype) return value;
    const DistType dist = DistOf(value);
    return AddLike("cast", like, {value}, {{"dtype", std::string(Name(dtype))}}, {{dtype, TypeOf(value).shape}},
                   {dist})[0];
  }

  std::vector<ValueId> InFull(const std::vector<ValueId>& values, const Node& like) {
    std::vector<ValueId> full;
    for (const ValueId value : values) full.push_back(Cast(value, DType::kFloat32, like));
    return full;
  }

  std::vector<ValueId> Add(const std::vector<ValueId>& sums, const std::vector<ValueId>& addends, const Node& like) {
    const std::vector<ValueId> a = InFull(sums, like), b = InFull(addends, like);
    std::vector<ValueId> result;
    for (size_t i = 0; i < a.size(); ++i) {
      const TensorType type = TypeOf(a[i]);
      const DistType dist = DistOf(a[i]);
      result.push_back(AddLike("add", like, {a[i], b[i]}, {}, {type}, {dist})[0]);
    }
    return result;
  }

  std::vector<ValueId> Merge(const std::vector<ValueId>& sums, const std::vector<ValueId>& others,
                             const std::string& merged_by, const Node& like) {
    const std::vector<ValueId> a = InFull(sums, like), b = InFull(others, like);
    std::vector<ValueId> inputs = a;
    inputs.insert(inputs.end(), b.begin(), b.end());
    std::vector<TensorType> types;
    std::vector<DistType> dists;
    for (const ValueId value : a) {
      types.push_back(TypeOf(value));
      dists.push_back(DistOf(value));
    }
    return AddLike(merged_by.c_str(), like, std::move(inputs), {}, types, dists);
  }

  // What read `from`, before the ring was written, reads `to`.
  void Replace(ValueId from, ValueId to, const Node& like) {
    const ValueId result = Cast(to, TypeOf(from).dtype, like);
    for (NodeId id = 0; id < num_nodes_; ++id) {
      for (ValueId& input : graph_.node(id).inputs) input = input == from ? result : input;
      for (ValueId& before : graph_.node(id).after) before = before == from ? result : before;
    }
  }

  Graph& graph_;
  const OpRegistry& ops_;
  UniqueNames names_;
  const int num_nodes_;
};

// The first attention that every rank along an axis for sequences computes all of, because it must, where a way was
// asked for; or "".
std::string ComputedByAll(const Graph& graph, const PassContext& context) {
  if (context.options.rings == RingUse::kByCost) return "";
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const OpDef& op = *context.ops.Find(node.op);
    if (op.ring == nullptr) continue;
    const Layout layout = NodeView::LayoutOf(graph, node);
    for (int a = 0; a < node.placement->num_axes(); ++a) {
      const Axis& axis = node.placement->axes()[a];
      const auto is_whole = [&](const NdSbp& sbp) { return sbp[a].is_broadcast(); };
      if (axis.size == 1 || !axis.Has(AxisRole::kSequence)) continue;
      const int64_t heads = node.attrs.Int("kv_heads", node.attrs.Int("heads", 1));
      const int64_t samples = graph.value(node.inputs[0]).type.shape[0];
      const bool can_be_divided = heads % axis.size == 0 || samples >= axis.size;  // else cost preferred it
      if (can_be_divided || !std::all_of(layout.inputs.begin(), layout.inputs.end(), is_whole)) continue;
      return absl::StrCat(Where(node), " is computed by all ", axis.size, " ranks along '", axis.name,
                          "', which can divide neither its ", heads, " heads of keys nor its ", samples, " samples");
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<bool> RingAttention(Graph& graph, PassContext& context) {
  const Mesh mesh = context.options.MeshOf(graph.name()).mesh();
  const bool in_vain = context.options.rings != RingUse::kByCost && mesh.AxesOf(AxisRole::kSequence).empty();
  if (in_vain && graph.is_trained()) {
    context.warnings.push_back(absl::StrCat("graph '", graph.name(),
                                            "': sequence.attention changes nothing: the mesh [", AxesText(mesh.axes()),
                                            "] has no axis for sequences"));
  }
  if (const std::string whole = ComputedByAll(graph, context); !whole.empty() && graph.is_trained()) {
    context.warnings.push_back(absl::StrCat("graph '", graph.name(), "': sequence.attention: ", whole));
  }
  return RingWriter(graph, context).Run();
}

}  // namespace oneflow
