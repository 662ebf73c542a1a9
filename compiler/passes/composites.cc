// expand-composites and fuse-composites: ops along the classes, in parts and whole.
//
// A softmax over n classes needs the maximum and the sum of its row. As one op it needs all classes in one place. In
// parts, the maximum is a reduction (P(max) where classes are split) and so is the sum (P), and only these two numbers
// per row travel, never the row. So selection sees the parts, whose signatures follow from their factor rules. Where it
// left them together without a boxing in between, one fused kernel does the same in fewer passes over the row.
//
//  softmax_cross_entropy(x, labels)  m = reduce_max(x)  s, z = softmax_sums(x, labels, m)  softmax_loss(m, s, z)
//  softmax(x)                        m = reduce_max(x)  s = exp_sum(x, m)                  softmax_apply(x, m, s)
//  softmax_grad(dy, y)                                  d = row_dot(dy, y)                 softmax_grad_apply(dy, y, d)
//  top1_correct(x, labels)           m = reduce_max(x)  i = first_index(x, m)              equal(i, labels)
//
// The whole and the last part are one node under two ops: it keeps its name, its outputs and its hints.
#include <algorithm>

#include "compiler/passes/passes.h"
#include "compiler/select/candidates.h"
#include "oneflow_core/builder.h"

namespace oneflow {
namespace {

// The kinds of inputs of a part.
enum class From : uint8_t {
  kWhole0,  // input 0 of the whole: always the rows
  kWhole1,
  kMax,    // the rows' maximum
  kPart0,  // outputs of the part in the middle
  kPart1,
};

struct Composite {
  absl::string_view whole;
  bool has_max;
  absl::string_view middle;
  std::vector<From> middle_inputs;
  absl::string_view last;
  std::vector<From> last_inputs;
};

const std::vector<Composite>& Composites() {
  static const auto* const kComposites = new std::vector<Composite>{
      {"softmax_cross_entropy",
       true,
       "softmax_sums",
       {From::kWhole0, From::kWhole1, From::kMax},
       "softmax_loss",
       {From::kMax, From::kPart0, From::kPart1}},
      {"softmax",
       true,
       "exp_sum",
       {From::kWhole0, From::kMax},
       "softmax_apply",
       {From::kWhole0, From::kMax, From::kPart0}},
      {"softmax_grad",
       false,
       "row_dot",
       {From::kWhole0, From::kWhole1},
       "softmax_grad_apply",
       {From::kWhole0, From::kWhole1, From::kPart0}},
      {"top1_correct", true, "first_index", {From::kWhole0, From::kMax}, "equal", {From::kPart0, From::kWhole1}},
  };
  return *kComposites;
}

const Composite* FindByWhole(absl::string_view op) {
  for (const Composite& composite : Composites()) {
    if (composite.whole == op) return &composite;
  }
  return nullptr;
}

const Composite* FindByLast(absl::string_view op) {
  for (const Composite& composite : Composites()) {
    if (composite.last == op) return &composite;
  }
  return nullptr;
}

// --- expand
// -----------------------------------------------------------------------------------------------------------------

// Adds the parts of node `id` and makes it the last of them.
void Expand(GraphBuilder& builder, NodeId id, const Composite& composite) {
  const Node node = builder.graph().node(id);
  builder.Imitate(node);
  const NodeId first_new = builder.graph().num_nodes();
  const auto whole = [&](int i) { return Tensor(&builder, node.inputs[i]); };
  const auto part = [&](absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs) {
    return builder.Op(op, inputs, std::move(attrs), std::source_location::current(), absl::StrCat(node.name, "/", op));
  };
  Tensor max;
  if (composite.has_max) {
    const int64_t classes_axis = whole(0).shape().rank() - 1;
    max = part("reduce_max", {whole(0)}, {{"axes", std::vector<int64_t>{classes_axis}}, {"keepdims", false}})[0];
  }
  std::vector<Tensor> middle;
  const auto operands = [&](const std::vector<From>& sources) {
    std::vector<Tensor> tensors;
    for (const From from : sources) {
      switch (from) {
        case From::kWhole0:
        case From::kWhole1:
          tensors.push_back(whole(from == From::kWhole0 ? 0 : 1));
          break;
        case From::kMax:
          tensors.push_back(max);
          break;
        case From::kPart0:
        case From::kPart1:
          tensors.push_back(middle[from == From::kPart0 ? 0 : 1]);
          break;
      }
    }
    return tensors;
  };
  middle = part(composite.middle, operands(composite.middle_inputs), {});
  Graph& graph = builder.mutable_graph();
  for (NodeId added = first_new; added < graph.num_nodes(); ++added) graph.node(added).placement = node.placement;
  graph.node(id).op = std::string(composite.last);
  graph.node(id).inputs.clear();
  for (const Tensor& input : operands(composite.last_inputs)) graph.node(id).inputs.push_back(input.id());
}

// Whether the classes of a node may be split later: there are other ranks, and its rows are not ragged.
bool MayBeSplit(const Graph& graph, const Node& node) {
  const TensorType& rows = graph.value(node.inputs[0]).type;
  return !node.placement->axes().empty() && rows.shape.count() > 0 && !rows.is_ragged();
}

// --- fuse
// -------------------------------------------------------------------------------------------------------------------

// The parts of a whole, found from the last.
struct Parts {
  NodeId max = -1, middle = -1, last = -1;
  std::vector<ValueId> whole_inputs;
};

class Fuser {
 public:
  Fuser(Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops), consumers_(graph.Consumers()) {}

  // Makes the last part `id` the whole again if nothing lies between the parts, and marks the others in `keep` as
  // dropped. Returns whether it did.
  bool Fuse(NodeId id, const Composite& composite, std::vector<bool>& keep) {
    Parts parts;
    parts.last = id;
    parts.whole_inputs.assign(2, -1);
    if (!Find(composite, parts) || !OnlyUsedInside(parts)) return false;
    if (parts.whole_inputs[1] < 0) parts.whole_inputs.pop_back();
    Layout layout;
    for (const ValueId input : parts.whole_inputs) layout.inputs.push_back(graph_.value(input).dist->sbp);
    for (const ValueId output : graph_.node(id).outputs) layout.outputs.push_back(graph_.value(output).dist->sbp);
    Node node = graph_.node(id);
    node.op = std::string(composite.whole);
    node.inputs = parts.whole_inputs;
    std::swap(graph_.node(id), node);
    if (!CheckLayout(graph_, id, *graph_.node(id).placement, ops_, layout).ok()) {  // the classes are split
      std::swap(graph_.node(id), node);
      return false;
    }
    keep[parts.middle] = false;
    if (parts.max >= 0) keep[parts.max] = false;
    return true;
  }

 private:
  // Follows the inputs of the last part and of the one in the middle; false if they are not those of one whole.
  bool Find(const Composite& composite, Parts& parts) const {
    const std::vector<ValueId>& last = graph_.node(parts.last).inputs;
    for (size_t i = 0; i < composite.last_inputs.size(); ++i) {
      if (composite.last_inputs[i] == From::kPart0) parts.middle = graph_.value(last[i]).producer;
    }
    const Node& middle = graph_.node(parts.middle);
    if (middle.op != composite.middle) return false;
    return Matches(composite.middle_inputs, middle.inputs, parts) && Matches(composite.last_inputs, last, parts);
  }

  bool Matches(const std::vector<From>& sources, const std::vector<ValueId>& inputs, Parts& parts) const {
    for (size_t i = 0; i < sources.size(); ++i) {
      const Value& value = graph_.value(inputs[i]);
      switch (sources[i]) {
        case From::kWhole0:
        case From::kWhole1: {
          ValueId& input = parts.whole_inputs[sources[i] == From::kWhole0 ? 0 : 1];
          if (input >= 0 && input != inputs[i]) return false;
          input = inputs[i];
          break;
        }
        case From::kMax: {
          if (parts.max >= 0 && parts.max != value.producer) return false;
          parts.max = value.producer;
          const Node& max = graph_.node(parts.max);
          if (max.op != "reduce_max" || max.attrs.Bool("keepdims") || max.inputs[0] != parts.whole_inputs[0])
            return false;
          const std::vector<int64_t> classes = {graph_.value(max.inputs[0]).type.shape.rank() - 1};
          if (max.attrs.Ints("axes") != classes) return false;
          break;
        }
        case From::kPart0:
        case From::kPart1:
          if (value.producer != parts.middle || value.output != (sources[i] == From::kPart0 ? 0 : 1)) return false;
          break;
      }
    }
    return true;
  }

  bool OnlyUsedInside(const Parts& parts) const {
    for (const NodeId part : {parts.max, parts.middle}) {
      if (part < 0) continue;
      for (const ValueId output : graph_.node(part).outputs) {
        for (const NodeId reader : consumers_[output]) {
          if (reader != parts.middle && reader != parts.last) return false;
        }
      }
    }
    return true;
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const std::vector<std::vector<NodeId>> consumers_;
};

}  // namespace

bool IsLastPart(absl::string_view op) { return FindByLast(op) != nullptr; }

absl::StatusOr<bool> ExpandComposites(Graph& graph, PassContext& context) {
  bool changed = false;
  const int num_nodes = graph.num_nodes();
  GraphBuilder builder(context.ops, std::move(graph));
  for (NodeId id = 0; id < num_nodes; ++id) {
    const Composite* const composite = FindByWhole(builder.graph().node(id).op);
    if (composite == nullptr || !MayBeSplit(builder.graph(), builder.graph().node(id))) continue;
    Expand(builder, id, *composite);
    changed = true;
  }
  OF_ASSIGN_OR_RETURN(graph, builder.Finish());
  if (changed) graph.Rebuild(std::vector<bool>(graph.num_nodes(), true));
  return changed;
}

absl::StatusOr<bool> FuseComposites(Graph& graph, PassContext& context) {
  bool changed = false;
  std::vector<bool> keep(graph.num_nodes(), true);
  Fuser fuser(graph, context.ops);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Composite* const composite = FindByLast(graph.node(id).op);
    if (composite != nullptr) changed = fuser.Fuse(id, *composite, keep) || changed;
  }
  if (changed) graph.Rebuild(keep);
  return changed;
}

}  // namespace oneflow
