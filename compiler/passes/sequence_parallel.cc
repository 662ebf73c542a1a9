// What Megatron-LM calls sequence parallelism (Korthikanti et al., 2022): between the products whose weights lie split
// along an axis for models, values are split by tokens instead of being whole on every rank. Sums of addends become
// reduce-scatters, and what the next products read is gathered, which together move as many bytes as an all-reduce.
//
// Which products these are follows from how their weights are wished to lie and from the signatures of their ops: one
// that then makes addends ends a part of the model, one that then makes parts begins it. All of it is wishes, as a user
// might write them.
#include <map>
#include <set>

#include "compiler/passes/passes.h"
#include "oneflow_core/graph_editor.h"
#include "sbp/signatures.h"

namespace oneflow {
namespace {

constexpr int kSequenceRank = 3;  // of [samples, tokens, width]
constexpr int kTokensDim = 1;

class TokenSplitter {
 public:
  TokenSplitter(Graph graph, const PassContext& context, const Mesh& mesh)
      : editor_(context.ops, std::move(graph)), ops_(context.ops) {
    for (const std::string& axis : mesh.AxesOf(AxisRole::kModel)) {
      if (mesh.AxisSize(axis) > 1) axes_[axis] = static_cast<int>(mesh.AxisSize(axis));
    }
  }

  // Whether there is a product that makes addends.
  absl::StatusOr<bool> Find() {
    for (NodeId id = 0; id < editor_.graph().num_nodes(); ++id) {
      const size_t inputs = editor_.graph().node(id).inputs.size();
      for (size_t i = 0; i < inputs; ++i) OF_RETURN_IF_ERROR(FindAt(id, i));
    }
    return !ends_.empty();
  }

  absl::StatusOr<Graph> Run() {
    consumers_ = editor_.graph().Consumers();
    for (const auto& [value, hint] : ends_) {
      SbpHint addends = hint;
      for (AxisSbp& wish : addends) wish.sbp = Sbp::Partial();  // so that the gradient is whole there
      AskBehind(value, {addends, hint});
    }
    for (const auto& [value, hint] : parts_) AskBehind(value, {hint});
    std::map<std::pair<ValueId, std::set<std::string>>, ValueId> whole;
    for (const auto& [reader, axes] : wholes_) {
      const auto [id, input] = reader;
      const ValueId value = editor_.graph().node(id).inputs[input];
      const auto [known, is_new] = whole.try_emplace({value, axes}, -1);
      if (is_new) {
        SbpHint hint;
        for (const std::string& axis : axes) hint.push_back({axis, Sbp::Broadcast()});
        known->second = Asked(value, hint, /*gradient=*/false);
      }
      editor_.mutable_graph().node(id).inputs[input] = known->second;
    }
    OF_ASSIGN_OR_RETURN(Graph graph, editor_.Finish());
    graph.Rebuild(std::vector<bool>(graph.num_nodes(), true));
    return graph;
  }

 private:
  // The variable that input `value` is, or null.
  const Value* WeightAt(ValueId value) const {
    const Graph& graph = editor_.graph();
    while (ops_.Is(graph.node(graph.value(value).producer).op, OpKind::kAnnotation)) {
      value = graph.node(graph.value(value).producer).inputs[0];
    }
    const bool is_weight = ops_.Is(graph.node(graph.value(value).producer).op, OpKind::kVariable);
    return is_weight ? &graph.value(value) : nullptr;
  }

  bool IsOfTokens(ValueId value) const {
    const TensorType& type = editor_.graph().value(value).type;
    return type.shape.rank() == kSequenceRank && !type.is_ragged() && IsFloating(type.dtype);
  }

  static bool IsWished(const SbpHint& hint, const std::string& axis) {
    return std::any_of(hint.begin(), hint.end(), [&](const AxisSbp& wish) { return wish.axis == axis; });
  }

  // What follows from how weight `input` of node `id` is wished to lie.
  absl::Status FindAt(NodeId id, size_t input) {
    const Graph& graph = editor_.graph();
    const Node& node = graph.node(id);
    const Value* const weight = WeightAt(node.inputs[input]);
    if (weight == nullptr || node.outputs.size() != 1 || !IsOfTokens(node.outputs[0])) return absl::OkStatus();
    for (const AxisSbp& wish : weight->hint) {
      const auto axis = axes_.find(wish.axis);
      if (axis == axes_.end() || !wish.sbp.is_split() || IsWished(graph.value(node.outputs[0]).hint, wish.axis))
        continue;
      OF_ASSIGN_OR_RETURN(const std::vector<Signature> signatures, Signatures1d(ops_, graph, id, axis->second));
      for (const Signature& signature : signatures) {
        if (signature.inputs[input] == wish.sbp) Take(id, wish.axis, signature);
      }
    }
    return absl::OkStatus();
  }

  void Take(NodeId id, const std::string& axis, const Signature& signature) {
    const Node& node = editor_.graph().node(id);
    const Sbp made = signature.outputs[0];
    if (made.is_partial()) ends_[node.outputs[0]].push_back({axis, Sbp::Split(kTokensDim)});
    // A bias, too, makes parts of parts; only what reads whole tokens begins anything.
    std::vector<int> whole;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!signature.inputs[i].is_broadcast() || WeightAt(node.inputs[i]) != nullptr) continue;
      if (IsOfTokens(node.inputs[i])) whole.push_back(static_cast<int>(i));
    }
    if (!made.is_split() || whole.empty()) return;
    parts_[node.outputs[0]].push_back({axis, made});
    for (const int i : whole) wholes_[{id, i}].insert(axis);
  }

  ValueId Asked(ValueId value, const SbpHint& hint, bool gradient) {
    const Node producer = editor_.graph().node(editor_.graph().value(value).producer);
    editor_.Imitate(producer);
    const Tensor x(&editor_, value);
    return (gradient ? x.ToWithGradient(hint) : x.To(hint)).id();
  }

  // All that read `value` find it as the last of the hints says, after the others; its gradient comes the way back.
  void AskBehind(ValueId value, const std::vector<SbpHint>& hints) {
    ValueId asked = value;
    for (const SbpHint& hint : hints) asked = Asked(asked, hint, /*gradient=*/true);
    for (const NodeId reader : consumers_[value]) {
      for (ValueId& input : editor_.mutable_graph().node(reader).inputs) {
        if (input == value) input = asked;
      }
    }
  }

  GraphEditor editor_;
  const OpRegistry& ops_;
  std::vector<std::vector<NodeId>> consumers_;                      // before anything is added
  std::map<std::string, int> axes_;                                 // for models, and how many ranks
  std::map<ValueId, SbpHint> ends_, parts_;                         // how what is behind these is wished to lie
  std::map<std::pair<NodeId, int>, std::set<std::string>> wholes_;  // inputs that are to be whole, along these axes
};

}  // namespace

absl::StatusOr<bool> SequenceParallel(Graph& graph, PassContext& context) {
  if (!context.options.sequence_parallel) return false;
  const PlanMesh mesh = context.options.MeshOf(graph.name());
  TokenSplitter splitter(graph, context, mesh.mesh());
  OF_ASSIGN_OR_RETURN(const bool any, splitter.Find());
  if (!any) {
    if (graph.is_trained()) {
      context.warnings.push_back(absl::StrCat(
          "graph '", graph.name(), "': sequence.parallel changes nothing: along no axis for models of the mesh ",
          AxesText(mesh.mesh().axes()), " does a weight lie split so that its product makes addends of tokens"));
    }
    return false;
  }
  OF_ASSIGN_OR_RETURN(graph, splitter.Run());
  return true;
}

}  // namespace oneflow
