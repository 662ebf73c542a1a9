// Reverse-mode differentiation. Nodes are visited from last to first. When a node is visited, all readers of its
// outputs have contributed, so the sum is its output gradient, and the op's own `grad` turns it into contributions to
// its inputs.
//
// A gradient may have another floating type than its value: f32 sums stay f32, and a reader casts a gradient to the
// type that it needs. The gradient of a variable has the variable's type.
//
// Only values on a path from a trainable variable that is not frozen get a gradient. The start is 1/k rather than 1, so
// that the sum over k micro-batches is the gradient of their mean, times the loss scale if there is one (loss_scale.h).
// Of a `step_mean` over several micro-batches it is 1, and the sums are divided by that of its weights.
#include <algorithm>
#include <map>

#include "compiler/parameter_groups.h"
#include "compiler/passes/loss_scale.h"
#include "compiler/passes/passes.h"
#include "oneflow_core/grad_context.h"

namespace oneflow {
namespace {

// The origin of a forward value: constants only, variables only (it is a weight then), or more.
struct Content {
  enum class Kind : uint8_t { kConstant, kWeight, kActivation } kind = Kind::kConstant;
  NodeId variable = -1;  // of a weight: its variable, or -1 if there are several
};

Content Join(const Content& a, const Content& b) {
  if (a.kind != b.kind) return a.kind < b.kind ? b : a;
  return {a.kind, a.variable == b.variable ? a.variable : -1};
}

class Differentiator {
 public:
  Differentiator(const OpRegistry& ops, Graph graph, const CompileOptions& options)
      : builder_(ops, std::move(graph)), num_forward_(builder_.graph().num_nodes()), options_(options) {
    FindPaths();
    FindContents();
  }

  absl::StatusOr<Graph> Run() {
    for (const ValueId loss : graph().losses) Start(loss);
    for (NodeId id = num_forward_ - 1; id >= 0 && builder_.status().ok(); --id) {
      OF_RETURN_IF_ERROR_AT(Visit(id), Where(graph().node(id)));
    }
    OF_RETURN_IF_ERROR(builder_.status());
    OF_RETURN_IF_ERROR(CheckReached());
    return builder_.Finish();
  }

  // The trainable variables on which no loss depends, for the user.
  std::vector<std::string> TakeWarnings() { return std::move(warnings_); }

 private:
  const Graph& graph() const { return builder_.graph(); }

  // A value needs a gradient if a trainable variable reaches it through floating values, past no annotation that ends
  // gradients.
  void FindPaths() {
    needs_grad_.assign(graph().num_values(), false);
    for (NodeId id = 0; id < num_forward_; ++id) {
      const Node& node = graph().node(id);
      bool needs = IsTrainable(id);
      for (ValueId input : node.inputs) needs = needs || needs_grad_[input];
      const OpDef& op = *builder_.ops().Find(node.op);
      needs = needs && !(op.kind == OpKind::kAnnotation && op.grad == nullptr);
      for (ValueId output : node.outputs) needs_grad_[output] = needs && IsFloating(graph().value(output).type.dtype);
    }
  }

  void FindContents() {
    contents_.assign(graph().num_values(), {});
    for (NodeId id = 0; id < num_forward_; ++id) {
      const Node& node = graph().node(id);
      const OpDef& op = *builder_.ops().Find(node.op);
      Content content;
      if (IsTrainable(id)) content = {Content::Kind::kWeight, id};
      if (op.kind == OpKind::kData || op.random) content = {Content::Kind::kActivation, -1};
      for (ValueId input : node.inputs) content = Join(content, contents_[input]);
      for (ValueId output : node.outputs) contents_[output] = content;
    }
  }

  // A frozen variable is a constant of the step.
  bool IsTrainable(NodeId id) const { return IsTrained(graph().node(id), builder_.ops(), options_.optimizer); }

  // A node with provenance, and with the source line and placement hint of node `like`.
  Tensor Add(NodeId like, absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs,
             const std::string& name) {
    builder_.set_source(graph().node(like).source);
    builder_.set_placement_hint(graph().node(like).at);
    return builder_.Op1(op, inputs, std::move(attrs), std::source_location::current(), name);
  }

  void Start(ValueId loss) {
    const NodeId producer = graph().value(loss).producer;
    const std::string name = absl::StrCat(graph().node(producer).name, "/grad");
    double share = 1.0 / options_.micro_batches;
    if (builder_.ops().Find(graph().node(producer).op)->is_step_mean && options_.micro_batches > 1) {
      if (!TakeWeight(producer)) return;
      loss = graph().node(producer).inputs[0];
      share = 1;
    }
    if (scales_loss_) {
      builder_.set_role(Role::kUpdate);
      builder_.set_source("");
      builder_.set_placement_hint({});
      const Tensor scale = LossScale(builder_, options_.precision);
      builder_.set_role(Role::kInputGradient, producer);
      contributions_[loss].push_back(Add(producer, "scale", {scale}, {{"alpha", share}}, name));
      return;
    }
    AttrMap attrs{{"dtype", std::string(Name(DType::kFloat32))}, {"shape", std::vector<int64_t>()}, {"value", share}};
    builder_.set_role(Role::kInputGradient);  // it comes from behind the loss, where there is no node
    contributions_[loss].push_back(Add(producer, "constant", {}, std::move(attrs), name));
  }

  // The gradient of a mean over a step is that of its totals, divided at the end by the sum of its weights. False, and
  // the builder has failed, if that is not so.
  bool TakeWeight(NodeId mean) {
    if (graph().losses.size() == 1 && !needs_grad_[graph().node(mean).inputs[1]]) {
      mean_ = mean;
      return true;
    }
    builder_.Fail(absl::InvalidArgumentError(
        absl::StrCat(Where(graph().node(mean)), ": a mean over ", options_.micro_batches,
                     " micro-batches must be the only loss, and its weight must not depend on trainable variables")));
    return false;
  }

  // One by the sum of the weights of `mean_`.
  Tensor InverseWeight() {
    if (inverse_.has_value()) return *inverse_;
    const std::string name = graph().node(mean_).name;
    const Tensor weight(&builder_, graph().node(mean_).inputs[1]);
    builder_.set_role(Role::kReduction, mean_);
    const Tensor sum = Add(mean_, "accumulate", {weight}, {}, absl::StrCat(name, "/weight"));
    AttrMap one{{"dtype", std::string(Name(DType::kFloat32))}, {"shape", std::vector<int64_t>()}, {"value", 1.0}};
    const Tensor numerator = Add(mean_, "constant", {}, std::move(one), absl::StrCat(name, "/one"));
    inverse_ = Add(mean_, "step_mean", {numerator, sum}, {}, absl::StrCat(name, "/inverse"));
    return *inverse_;
  }

  // `x`, which serves node `like`, as `dtype`.
  Tensor As(DType dtype, const Tensor& x, NodeId like) {
    if (x.type().dtype == dtype) return x;
    return Add(like, "cast", {x}, {{"dtype", std::string(Name(dtype))}},
               absl::StrCat(graph().node(like).name, "/grad_", Name(dtype)));
  }

  // The sum of the contributions to `value`, or nothing if there are none. Of several types it is f32.
  std::optional<Tensor> Gradient(ValueId value) {
    const auto it = contributions_.find(value);
    if (it == contributions_.end()) return std::nullopt;
    if (it->second.size() == 1) return it->second[0];
    const NodeId producer = graph().value(value).producer;
    const bool weight = contents_[value].kind == Content::Kind::kWeight;
    builder_.set_role(weight ? Role::kWeightGradient : Role::kInputGradient, producer, contents_[value].variable);
    std::vector<Tensor> addends = it->second;
    const DType first = addends[0].type().dtype;
    const bool same =
        std::all_of(addends.begin(), addends.end(), [&](const Tensor& addend) { return addend.type().dtype == first; });
    for (Tensor& addend : addends) addend = As(same ? first : DType::kFloat32, addend, producer);
    return Add(producer, "add_n", addends, {}, absl::StrCat(graph().node(producer).name, "/grad_sum"));
  }

  absl::Status Visit(NodeId id) {
    const Node node = graph().node(id);  // a copy: the graph grows below
    bool arrived = false;
    for (ValueId output : node.outputs) arrived = arrived || (needs_grad_[output] && contributions_.count(output) > 0);
    if (!arrived) return absl::OkStatus();
    if (IsTrainable(id)) return FinishVariable(id);
    OF_ASSIGN_OR_RETURN(const OpDef* const op, builder_.ops().Get(node.op));
    if (op->grad == nullptr) {
      return absl::UnimplementedError(absl::StrCat("no gradient is defined for op '", node.op,
                                                   "', but the loss depends on a trainable variable through it"));
    }
    const bool same = op->kind == OpKind::kAnnotation || op->kind == OpKind::kCast;
    if (same && contents_[node.inputs[0]].kind == Content::Kind::kWeight) return PassOn(node);
    std::vector<std::optional<Tensor>> output_grads;
    for (ValueId output : node.outputs) output_grads.push_back(needs_grad_[output] ? Gradient(output) : std::nullopt);
    GradContext context(builder_, id, std::move(output_grads));
    for (size_t i = 0; i < node.inputs.size(); ++i) context.set_needs_grad(i, needs_grad_[node.inputs[i]]);
    const NodeId first = graph().num_nodes();
    OF_RETURN_IF_ERROR(op->grad(context));
    OF_RETURN_IF_ERROR(builder_.status());
    TellRoles(node, context, first);
    return Collect(node, context);
  }

  // A weight under an annotation, or in another type, is the weight itself: the contributions of its readers are
  // accumulated separately, see FinishVariable.
  absl::Status PassOn(const Node& same) {
    const std::vector<Tensor> arrived = contributions_[same.outputs[0]];
    std::vector<Tensor>& parts = contributions_[same.inputs[0]];
    parts.insert(parts.end(), arrived.begin(), arrived.end());
    return absl::OkStatus();
  }

  // Sets the roles of the nodes that `forward`'s gradient added, from `first` on: by the inputs whose gradients need
  // them.
  void TellRoles(const Node& forward, const GradContext& context, NodeId first) {
    std::vector<Content> of(graph().num_nodes() - first);
    std::vector<bool> weight(of.size(), false), other(of.size(), false);
    const auto need = [&](ValueId value, const Content& content, bool by_weight, bool by_other) {
      const NodeId node = graph().value(value).producer - first;
      if (node < 0) return;  // not one of them
      of[node] = Join(of[node], content);
      weight[node] = weight[node] || by_weight;
      other[node] = other[node] || by_other;
    };
    for (size_t i = 0; i < forward.inputs.size(); ++i) {
      if (!context.input_grads()[i].has_value() || !needs_grad_[forward.inputs[i]]) continue;
      const Content& content = contents_[forward.inputs[i]];
      const bool is_weight = content.kind == Content::Kind::kWeight;
      need(context.input_grads()[i]->id(), content, is_weight, !is_weight);
    }
    for (NodeId node = static_cast<NodeId>(of.size()) - 1; node >= 0; --node) {
      Node& added = builder_.mutable_graph().node(first + node);
      for (ValueId input : added.inputs) need(input, of[node], weight[node], other[node]);
      if (weight[node] != other[node]) added.role = weight[node] ? Role::kWeightGradient : Role::kInputGradient;
      if (!other[node]) added.variable = of[node].variable;
    }
  }

  absl::Status Collect(const Node& node, const GradContext& context) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const std::optional<Tensor>& grad = context.input_grads()[i];
      if (!grad.has_value() || !needs_grad_[node.inputs[i]]) continue;
      const TensorType& type = graph().value(node.inputs[i]).type;
      if (grad->shape() != type.shape || !IsFloating(grad->type().dtype)) {
        return absl::InternalError(
            absl::StrCat("gradient of input ", i, " is ", grad->type().ToString(), ", the input ", type.ToString()));
      }
      contributions_[node.inputs[i]].push_back(*grad);
    }
    return absl::OkStatus();
  }

  // Each contribution is accumulated separately and serves its own forward node; the sums are added once per step. So
  // contributions from different pipeline stages (of a tied weight) travel and meet once per step and not once per
  // micro-batch.
  absl::Status FinishVariable(NodeId variable) {
    const std::string name = absl::StrCat(graph().node(variable).name, "/grad");
    const DType dtype = graph().value(graph().node(variable).outputs[0]).type.dtype;
    const std::string all = mean_ < 0 ? name : absl::StrCat(name, "_total");
    const std::vector<Tensor>& parts = contributions_[graph().node(variable).outputs[0]];
    std::vector<Tensor> sums;
    for (const Tensor& narrow : parts) {
      const NodeId forward = graph().node(graph().value(narrow.id()).producer).forward;
      builder_.set_role(Role::kWeightGradient, forward, variable);
      const Tensor part = As(dtype, narrow, variable);
      builder_.set_role(Role::kReduction, forward, variable);
      sums.push_back(Add(variable, "accumulate", {part}, {}, parts.size() == 1 ? all : absl::StrCat(name, "_part")));
    }
    const std::optional<Tensor> inverse = mean_ < 0 ? std::nullopt : std::optional(InverseWeight());
    builder_.set_role(Role::kReduction, -1, variable);
    const Tensor sum = sums.size() > 1 ? Add(variable, "add_n", sums, {}, all) : sums[0];
    if (inverse.has_value()) Add(variable, "mul", {sum, As(sum.type().dtype, *inverse, variable)}, {}, name);
    return builder_.status();
  }

  absl::Status CheckReached() {
    int num_trainable = 0;
    for (NodeId id = 0; id < num_forward_; ++id) {
      const Node& node = graph().node(id);
      if (!IsTrainable(id)) continue;
      ++num_trainable;
      if (contributions_.count(node.outputs[0]) > 0) continue;
      warnings_.push_back(absl::StrCat(Where(node), ": no loss depends on it, so it is not trained"));
    }
    if (num_trainable == 0) {
      return absl::InvalidArgumentError(options_.optimizer.groups.empty()
                                            ? "there is a loss but no trainable variable"
                                            : "there is a loss but no trainable variable that is not frozen");
    }
    if (static_cast<int>(warnings_.size()) < num_trainable) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("there is a loss, but it depends on none of ", num_trainable, " trainable variables"));
  }

  GraphEditor builder_;
  const int num_forward_;
  const CompileOptions& options_;
  const bool scales_loss_ = ScalesLoss(builder_.graph());
  NodeId mean_ = -1;  // of a loss that is one over several micro-batches; -1: none
  std::optional<Tensor> inverse_;
  std::vector<bool> needs_grad_;  // by forward value
  std::vector<std::string> warnings_;
  std::vector<Content> contents_;                         // by forward value
  std::map<ValueId, std::vector<Tensor>> contributions_;  // to the gradient of a forward value, in order of arrival
};

}  // namespace

std::vector<ValueId> VariableGradients(const Graph& graph) {
  std::vector<ValueId> gradients(graph.num_nodes(), -1);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.role == Role::kReduction && node.variable >= 0) gradients[node.variable] = node.outputs[0];
  }
  return gradients;
}

absl::StatusOr<bool> Autodiff(Graph& graph, PassContext& context) {
  if (!graph.is_trained()) return false;
  const std::string name = graph.name();
  Differentiator differentiator(context.ops, std::move(graph), context.options);
  OF_ASSIGN_OR_RETURN(graph, differentiator.Run());
  for (const std::string& warning : differentiator.TakeWarnings()) {
    context.warnings.push_back(absl::StrCat("graph '", name, "': ", warning));
  }
  return true;
}

}  // namespace oneflow
