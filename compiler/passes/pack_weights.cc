// Packs the weights of bf16 products in the layout in which products read them (oneflow_core/packed.h). It runs when
// layouts and boxings are known, so each rank packs its own shard, and packed data never travels.
//
// Forward and the gradient of the rows read a weight along different dimensions, so each has its own copy. It is made
// once per step, straight from the master where nothing else reads the rounded weight. With several micro-batches the
// copies live through all of them, as the rounded weight does. Weights that are gathered for each use (zero.h) are read
// as they come: packing one that is used once takes longer than it saves.
#include <algorithm>
#include <map>
#include <optional>

#include "compiler/node_view.h"
#include "compiler/passes/passes.h"
#include "glog/logging.h"
#include "oneflow_core/packed.h"
#include "oneflow_core/unique_names.h"

namespace oneflow {
namespace {

// On a rank: the fewest rows with which packed products were measured to be faster (kernels/NOTES.md).
constexpr int64_t kFewestRows = 64;

class Packer {
 public:
  Packer(Graph& graph, const OpRegistry& ops, bool gathers_per_use)
      : graph_(graph), ops_(ops), gathers_per_use_(gathers_per_use), names_(graph), num_nodes_(graph.num_nodes()) {}

  // Returns whether it packed anything.
  bool Run() {
    for (NodeId id = 0; id < num_nodes_; ++id) {
      if (IsCandidate(id)) Pack(id);
    }
    keep_.resize(graph_.num_nodes(), true);
    ReadMasters();
    if (graph_.num_nodes() == num_nodes_) return false;
    graph_.Rebuild(keep_);
    return true;
  }

 private:
  // A product of enough bf16 rows with a weight that is the same in all micro-batches.
  bool IsCandidate(NodeId id) const {
    const Node& node = graph_.node(id);
    if (ops_.Find(node.op)->packed.empty()) return false;
    const Value &rows = graph_.value(node.inputs[0]), &weight = graph_.value(node.inputs[1]);
    if (weight.type.dtype != DType::kBFloat16 || ValueRate(graph_, node.inputs[1], ops_) != Rate::kStep) return false;
    if (rows.type.is_ragged() || weight.type.is_ragged() || (gathers_per_use_ && IsBoxed(node.inputs[1]))) return false;
    const int64_t k = rows.type.shape.dims().back();
    return k > 0 && rows.type.shape.count() / k >= kFewestRows * node.placement->size();
  }

  // Whether it, or what was rounded to it, comes from other ranks.
  bool IsBoxed(ValueId weight) const {
    const Node& maker = graph_.node(graph_.value(weight).producer);
    const bool is_cast = ops_.Is(maker.op, OpKind::kCast);
    return ops_.Is(maker.op, OpKind::kBoxing) || (is_cast && IsBoxed(maker.inputs[0]));
  }

  // Makes the product read a packed weight, if every rank has whole panels.
  void Pack(NodeId id) {
    const Node product = graph_.node(id);
    const bool transposed = product.attrs.Bool("transpose_b");
    const ValueId weight = product.inputs[1];
    const Shape& shape = graph_.value(weight).type.shape;
    const int64_t k = shape[transposed ? 1 : 0], n = shape[transposed ? 0 : 1];
    if (!HasWholePanels(k, n)) return;
    const std::optional<ValueId> packed = Packed(weight, transposed, PackedShape(k, n), product);
    if (!packed.has_value()) return;
    Node with = product;
    with.op = ops_.Find(product.op)->packed;
    with.inputs[1] = *packed;
    with.attrs = {};
    if (product.attrs.Has("out_dtype")) with.attrs.Set("out_dtype", product.attrs.String("out_dtype"));
    CHECK(TryReplace(graph_, id, std::move(with), ops_)) << product.name;
  }

  // The weight in panels, made for `reader` if necessary; nothing if some rank would have a part of a panel.
  std::optional<ValueId> Packed(ValueId weight, bool transposed, Shape shape, const Node& reader) {
    const auto [known, is_new] = packed_.try_emplace({weight, transposed});
    if (is_new) known->second = MakePacked(weight, transposed, std::move(shape), reader);
    return known->second;
  }

  std::optional<ValueId> MakePacked(ValueId weight, bool transposed, Shape shape, const Node& reader) {
    const DistType whole = *graph_.value(weight).dist;
    DistType dist = whole;
    for (Sbp& sbp : dist.sbp) {
      if (sbp.is_partial()) return std::nullopt;
      if (sbp.is_split()) sbp = Sbp::Split(transposed ? sbp.dim() : 1 - sbp.dim());
    }
    Node node;
    node.op = "pack_weight";
    node.name = names_.Make(absl::StrCat(reader.name, "/packed"));
    if (transposed) node.attrs.Set("transpose", true);
    node.inputs = {weight};
    node.source = reader.source;
    CopyProvenance(reader, node);
    node.rate = Rate::kStep;
    node.placement = whole.placement;
    const NodeId id = graph_.AddNode(std::move(node), {{DType::kBFloat16, std::move(shape)}});
    const ValueId packed = graph_.node(id).outputs[0];
    graph_.value(packed).dist = dist;
    const NodeView view(graph_, id, ops_);
    const bool fits = view.CheckLayout(view.layout(), whole.placement).ok();
    keep_.resize(graph_.num_nodes(), true);
    keep_[id] = fits;
    return fits ? std::optional(packed) : std::nullopt;
  }

  // Where a rounded weight is only read to be packed, packing does the rounding.
  void ReadMasters() {
    const std::vector<std::vector<NodeId>> readers = graph_.Consumers();
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const Node& cast = graph_.node(id);
      if (!ops_.Is(cast.op, OpKind::kCast) || cast.inputs.size() != 1) continue;
      const std::vector<NodeId>& packs = readers[cast.outputs[0]];
      const bool is_f32 = graph_.value(cast.inputs[0]).type.dtype == DType::kFloat32;
      const bool only_packed = std::all_of(packs.begin(), packs.end(), [&](NodeId reader) {
        return ops_.Find(graph_.node(reader).op)->packs && keep_[reader];
      });
      if (!is_f32 || packs.empty() || !only_packed) continue;
      for (const NodeId pack : packs) {
        graph_.node(pack).inputs[0] = cast.inputs[0];
        Absorb(cast, graph_.node(pack));
      }
      keep_[id] = false;
    }
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const bool gathers_per_use_;
  UniqueNames names_;
  const int num_nodes_;
  std::vector<bool> keep_;
  std::map<std::pair<ValueId, bool>, std::optional<ValueId>> packed_;  // by weight and whether it is transposed
};

}  // namespace

absl::StatusOr<bool> PackWeights(Graph& graph, PassContext& context) {
  if (context.options.device != DeviceKind::kCpu) return false;
  const bool gathers_per_use = context.options.zero.has_value() && context.options.zero->stage > 2;
  return Packer(graph, context.ops, gathers_per_use).Run();
}

}  // namespace oneflow
