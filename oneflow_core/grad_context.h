// What the gradient function of an op works with.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/graph_editor.h"

namespace oneflow {

// What an op's `grad` sees: the forward node, the gradients that have arrived at its outputs, and where to put those of
// its inputs.
class GradContext {
 public:
  // `output_grads` has one entry per output; empty where nothing downstream needs that output's gradient (at least one
  // is set).
  GradContext(GraphEditor& builder, NodeId node, std::vector<std::optional<Tensor>> output_grads);

  // The forward node's name and a copy of its attributes.
  std::string name() const;
  AttrMap attrs() const;
  int num_inputs() const { return static_cast<int>(needs_.size()); }
  Tensor input(int i) const;
  Tensor output(int i) const;
  // What has arrived at output i, in the element type of the output, or in `dtype`. A gradient may come in another
  // floating type than its value's, which `arrived_grad` keeps.
  std::optional<Tensor> output_grad(int i);
  std::optional<Tensor> output_grad(int i, DType dtype);
  // The same, of floats, or zeros where nothing has arrived.
  Tensor output_grad_or_zeros(int i);
  const std::optional<Tensor>& arrived_grad(int i) const { return output_grads_[i]; }
  // Whether anyone needs the gradient of input i; Call()s for others may be left out.
  bool needs_grad(int i) const { return needs_[i]; }
  void set_needs_grad(int i, bool needs) { needs_[i] = needs; }

  // Adds a node that serves the forward node, under its name and source line. Its role is kFusedGradient: which inputs
  // it is for is known when all gradients are set.
  Tensor Call1(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs = {});
  std::vector<Tensor> Call(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs = {});
  // `grad`, asked to lie as `hint` says.
  Tensor Lying(const Tensor& grad, SbpHint hint);
  // `grad` has the shape of input i, and its element type or another floating one. It is padded, or its filled rows are
  // kept, where it is ragged and the input is not, or the other way round.
  void SetInputGrad(int i, Tensor grad);
  const std::vector<std::optional<Tensor>>& input_grads() const { return input_grads_; }

 private:
  GraphEditor& builder_;
  NodeId node_;
  std::vector<std::optional<Tensor>> output_grads_;
  std::map<std::pair<int, DType>, Tensor> cast_grads_;  // of outputs
  std::vector<std::optional<Tensor>> input_grads_;
  std::vector<bool> needs_;
};

}  // namespace oneflow
