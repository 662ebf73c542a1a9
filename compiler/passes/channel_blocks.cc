// On CPUs convolutions read sixteen channels of a pixel at a time (oneflow_core/memory_layout.h), and reorder other
// operands in every call. This pass keeps values in blocks from one convolution to the next, through all ops between
// that accept them.
//
// Values that an op wants alike form a group (OpDef::blocks), which lies in blocks as a whole or not at all. At a
// border a value of a group is made, or read, by an op that knows rows only: there one `reorder` serves all readers of
// a kind. A group lies in blocks where that saves bytes: each operand of a convolution in blocks saves a reorder in its
// call, and each border costs one.
//
// It is the last of the passes: it sees the final shards, boxings and clones, and none of them depends on it.
#include <algorithm>
#include <map>

#include "compiler/node_view.h"
#include "compiler/passes/passes.h"
#include "oneflow_core/union_find.h"
#include "oneflow_core/unique_names.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

class BlockMaker {
 public:
  BlockMaker(Graph& graph, const OpRegistry& ops)
      : graph_(graph), ops_(ops), names_(graph), num_nodes_(graph.num_nodes()), alike_(graph.num_values()) {}

  // Returns whether anything lies in blocks.
  bool Run() {
    FindGroups();
    Weigh();
    for (ValueId id = 0; id < static_cast<ValueId>(makes_.size()); ++id) {
      if (makes_[id] && InBlocks(id)) graph_.value(id).layout = MemoryLayout::kChannelBlocks;
    }
    for (NodeId id = 0; id < num_nodes_; ++id) Connect(id);
    const bool changed = std::any_of(saved_.begin(), saved_.end(), [](int64_t bytes) { return bytes > 0; });
    if (graph_.num_nodes() > num_nodes_) graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
    return changed;
  }

 private:
  // By operand, inputs first: its value, and whether the op takes it in blocks.
  struct Operand {
    ValueId value;
    int group;
  };
  std::vector<Operand> OperandsOf(const Node& node) const {
    const OpDef& op = *ops_.Find(node.op);
    const NodeView view(graph_, node, op);
    const std::vector<int> groups = BlockGroups(op, view.input_types(), view.output_types(), node.attrs);
    std::vector<Operand> operands;
    for (const ValueId id : node.inputs) operands.push_back({id, groups[operands.size()]});
    for (const ValueId id : node.outputs) operands.push_back({id, groups[operands.size()]});
    return operands;
  }

  // A product with operands in blocks is a convolution, which would reorder those that lie otherwise.
  bool IsProduct(NodeId id) const { return ops_.Find(graph_.node(id).op)->precision == Precision::kCompute; }

  // Finds the values that lie alike, and those that their makers can give in blocks.
  void FindGroups() {
    makes_.assign(graph_.num_values(), false);
    for (NodeId id = 0; id < num_nodes_; ++id) {
      const Node& node = graph_.node(id);
      operands_.push_back(OperandsOf(node));
      std::map<int, ValueId> first;
      for (const Operand& x : operands_.back()) {
        if (x.group < 0) continue;
        alike_.Unite(first.emplace(x.group, x.value).first->second, x.value);
        if (graph_.value(x.value).producer == id) makes_[x.value] = true;
      }
    }
  }

  // By group, named by its lowest value: the bytes of saved reorders if it lies in blocks, less those of new ones. Zero
  // for a group that cannot.
  void Weigh() {
    saved_.assign(graph_.num_values(), 0);
    std::vector<bool> fits(graph_.num_values(), true), needs_blocks(graph_.num_values(), false),
        needs_rows(graph_.num_values(), false);
    for (NodeId id = 0; id < num_nodes_; ++id) {
      for (const Operand& x : operands_[id]) {
        const bool reads = graph_.value(x.value).producer != id;
        if (x.group >= 0 && IsProduct(id)) saved_[alike_.Find(x.value)] += Bytes(x.value);
        if (x.group >= 0 && reads) needs_blocks[x.value] = true;
        if (x.group < 0 && reads) needs_rows[x.value] = true;
      }
    }
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const int group = alike_.Find(id);
      if ((makes_[id] || needs_blocks[id]) && !ShardsFitBlocks(graph_.value(id).type, *graph_.value(id).dist)) {
        fits[group] = false;
      }
      if (makes_[id] ? needs_rows[id] : needs_blocks[id]) saved_[group] -= Bytes(id);
    }
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      if (!fits[id]) saved_[id] = 0;
    }
  }

  // Bytes of whole tensors are enough to compare, since values that lie alike are split alike.
  int64_t Bytes(ValueId id) const { return graph_.value(id).type.num_bytes(); }
  bool InBlocks(ValueId id) { return saved_[alike_.Find(id)] > 0; }

  // Gives the node its inputs in the layout that it takes.
  void Connect(NodeId id) {
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const Operand x = operands_[id][i];
      const bool wants_blocks = x.group >= 0 && InBlocks(x.value);
      const MemoryLayout wanted = wants_blocks ? MemoryLayout::kChannelBlocks : MemoryLayout::kRowMajor;
      if (graph_.value(x.value).layout != wanted) graph_.node(id).inputs[i] = Reordered(x.value, wanted, id);
    }
  }

  // The value in its other layout. It is made for `reader`, the first that wants it so, when that one may run.
  ValueId Reordered(ValueId value, MemoryLayout layout, NodeId reader) {
    const auto [known, is_new] = reordered_.try_emplace(value, -1);
    if (!is_new) return known->second;
    const Node& like = graph_.node(reader);
    const Value from = graph_.value(value);
    Node node;
    node.op = "reorder";
    node.name = names_.Make(
        absl::StrCat(graph_.node(from.producer).name, layout == MemoryLayout::kRowMajor ? "/rows" : "/blocks"));
    node.inputs = {value};
    node.source = like.source;
    CopyProvenance(like, node);
    node.rate = ValueRate(graph_, value, ops_);
    if (node.rate == like.rate) node.after = like.after;
    node.placement = from.dist->placement;
    const NodeId id = graph_.AddNode(std::move(node), {from.type});
    Value& to = graph_.value(graph_.node(id).outputs[0]);
    to.dist = from.dist;
    to.layout = layout;
    return known->second = graph_.node(id).outputs[0];
  }

  Graph& graph_;
  const OpRegistry& ops_;
  UniqueNames names_;
  const int num_nodes_;
  std::vector<std::vector<Operand>> operands_;  // by node
  UnionFind alike_;                             // values
  std::vector<bool> makes_;                     // by value: its maker can give it in blocks
  std::vector<int64_t> saved_;                  // by group
  std::map<ValueId, ValueId> reordered_;
};

}  // namespace

absl::StatusOr<bool> ChannelBlocks(Graph& graph, PassContext& context) {
  if (context.options.device != DeviceKind::kCpu) return false;
  return BlockMaker(graph, context.ops).Run();
}

}  // namespace oneflow
