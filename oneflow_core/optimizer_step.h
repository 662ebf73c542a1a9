// The update of one variable, as rules write it that are made of ops (oneflow_core/optimizers/). They work on whole
// tensors: layouts are chosen afterwards, so that a norm is reduced over the ranks that have parts of the tensor, and a
// product of split matrices is a product of whole ones.
//
//   void Sgd(OptimizerStep& s) {
//     const Tensor u = Scale(s.state("u"), s.Number("momentum")) + s.gradient();
//     s.SetState("u", u);
//     s.SetWeight(s.weight() - u * s.rate());
//   }
//
// A step that is skipped changes nothing, whatever the rule computes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "oneflow_core/builder.h"

namespace oneflow {

class OptimizerStep {
 public:
  struct Operands {
    Tensor weight, gradient;               // f32; the gradient before it is multiplied by `scale`; invalid: none
    Tensor rate, scale;                    // f32[]; scale: NaN where the step is skipped
    std::map<std::string, Tensor> states;  // those that the variable has, by operand (OptimizerState)
  };
  // A number of the step that is the same for all variables: op(steps taken) with these attributes.
  using StepNumber = std::function<Tensor(const std::string& op, const AttrMap& attrs)>;

  // All are borrowed. `attrs`: the rule's attributes and weight_decay.
  OptimizerStep(GraphBuilder& builder, const Operands& operands, const AttrMap& attrs, const StepNumber& step_number);

  const Tensor& weight() const { return operands_.weight; }
  const Tensor& gradient() const { return gradient_; }  // times scale
  const Tensor& rate() const { return operands_.rate; }
  // REQUIRES: the variable has it.
  const Tensor& state(const std::string& operand) const { return operands_.states.at(operand); }

  double Number(const std::string& attribute) const { return attrs_.Double(attribute); }
  bool Flag(const std::string& attribute) const { return attrs_.Bool(attribute); }
  double weight_decay() const { return attrs_.Double("weight_decay"); }

  // 1 - beta^t and t^exponent, where t is the number of this step, counted from 1.
  Tensor BiasCorrection(double beta) const { return step_number_("bias_correction", {{"beta", beta}}); }
  Tensor Power(double exponent) const { return step_number_("step_power", {{"exponent", exponent}}); }
  // The sum of the squares of all elements.
  Tensor SumOfSquares(const Tensor& x) const;
  Tensor RootMeanSquare(const Tensor& x) const;
  // coefficient |a| / (|b| + decay |a| + epsilon), of the sums of squares of a and b; 1 where one of them is 0.
  Tensor TrustRatio(const Tensor& squares_a, const Tensor& squares_b, double coefficient = 1, double decay = 0,
                    double epsilon = 0) const;
  // beta x + (1 - beta) y.
  static Tensor Average(double beta, const Tensor& x, const Tensor& y);
  // The weight less its decay: w (1 - rate decay).
  Tensor Decayed() const;
  // The gradient, which is that at x, and the one of decay / 2 |x|^2.
  Tensor DecayedGradient(const Tensor& x) const;

  // What variables hold after the step; each once.
  void SetState(const std::string& operand, const Tensor& x) { Set(state(operand), x, "state"); }
  void SetWeight(const Tensor& x) { Set(weight(), x, "weight"); }

 private:
  void Set(const Tensor& v, const Tensor& x, const std::string& name);

  GraphBuilder& builder_;
  const Operands& operands_;
  const AttrMap& attrs_;
  const StepNumber& step_number_;
  const Tensor gradient_;
};

}  // namespace oneflow
