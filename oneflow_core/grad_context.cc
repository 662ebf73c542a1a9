#include "oneflow_core/grad_context.h"

#include "oneflow_core/ragged.h"

namespace oneflow {

GradContext::GradContext(GraphEditor& builder, NodeId node, std::vector<std::optional<Tensor>> output_grads)
    : builder_(builder),
      node_(node),
      output_grads_(std::move(output_grads)),
      input_grads_(builder.graph().node(node).inputs.size()),
      needs_(builder.graph().node(node).inputs.size(), true) {}

std::string GradContext::name() const { return builder_.graph().node(node_).name; }
AttrMap GradContext::attrs() const { return builder_.graph().node(node_).attrs; }
Tensor GradContext::input(int i) const { return Tensor(&builder_, builder_.graph().node(node_).inputs[i]); }
Tensor GradContext::output(int i) const { return Tensor(&builder_, builder_.graph().node(node_).outputs[i]); }

std::optional<Tensor> GradContext::output_grad(int i) { return output_grad(i, output(i).type().dtype); }

std::optional<Tensor> GradContext::output_grad(int i, DType dtype) {
  const std::optional<Tensor>& arrived = output_grads_[i];
  if (!arrived.has_value() || arrived->type().dtype == dtype) return arrived;
  Tensor& cast = cast_grads_[{i, dtype}];
  if (!cast.valid()) cast = Call1("cast", {*arrived}, {{"dtype", std::string(Name(dtype))}});
  return cast;
}

Tensor GradContext::output_grad_or_zeros(int i) {
  if (std::optional<Tensor> arrived = output_grad(i); arrived.has_value()) return *arrived;
  const TensorType& type = output(i).type();
  return Call1("constant", {},
               {{"dtype", std::string(Name(type.dtype))}, {"shape", type.shape.dims()}, {"value", 0.0}});
}

void GradContext::SetInputGrad(int i, Tensor grad) {
  const bool ragged = input(i).type().is_ragged();
  if (grad.valid() && grad.type().is_ragged() != ragged) {
    const ValueId counts = CountsOf(builder_.graph(), ragged ? input(i).id() : grad.id());
    grad = Call1(ragged ? "keep_rows" : "pad_rows", {grad, Tensor(&builder_, counts)});
  }
  input_grads_[i] = grad;
}

std::vector<Tensor> GradContext::Call(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs) {
  const Node& forward = builder_.graph().node(node_);
  const std::string name = absl::StrCat(forward.name, "/", op);
  builder_.set_source(forward.source);
  builder_.set_placement_hint(forward.at);
  builder_.set_role(Role::kFusedGradient, node_);
  return builder_.Op(op, inputs, std::move(attrs), std::source_location::current(), name);
}

Tensor GradContext::Call1(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs) {
  const std::vector<Tensor> outputs = Call(op, inputs, std::move(attrs));
  return outputs.empty() ? Tensor() : outputs[0];
}

Tensor GradContext::Lying(const Tensor& grad, SbpHint hint) {
  const Tensor asked = Call1("to", {grad});
  if (asked.valid()) builder_.mutable_graph().value(asked.id()).hint = std::move(hint);
  return asked;
}

}  // namespace oneflow
