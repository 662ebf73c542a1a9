// The rules by which an optimizer updates a weight: a row each. From a row follow the variables that the compiler adds
// and the nodes that update them (compiler/passes/optimizer.cc), and how a job's `train.optimizer.<name> { ... }` is
// read and checked (tools/job). Every rule also has the attribute `weight_decay`. There are two kinds:
//
//   one op, `<name>_update` (oneflow_core/ops/optimizer.cc), for what needs an element of each operand at a time
//   several ops that `build` writes (oneflow_core/optimizer_step.h), for what needs norms, means or products
//
// A new rule of the first kind needs its row here, its message in proto/job.proto, its formula in
// kernels/optimizer_updates.h, its line in oneflow_core/ops/README.md, and what it is in PyTorch
// (test/parity/op_functions.py). One of the second kind needs its file in oneflow_core/optimizers/, which is listed in
// optimizers.h and optimizer_rules.cc, its message, and its formula in test/laws/optimizers_test.cc.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/shape.h"

namespace oneflow {

// A number, or a flag.
struct OptimizerAttribute {
  std::string name;
  double value = 0;      // where a job says none
  double below = 0;      // it is in [0, below); 0: any finite number >= 0
  bool is_flag = false;  // true or false; `value` is 0 or 1
};

struct OptimizerState {
  std::string operand;  // as the op's errors name it
  std::string suffix;   // of the variable: "<weight>/<suffix>", zeros at first
  // Its shape beside a weight: like it, but some dimensions may be 1. Nothing: a weight of this shape has none.
  // Null: that of the weight.
  std::optional<Shape> (*shape)(const Shape& weight) = nullptr;
};

class OptimizerStep;
class Tensor;

struct OptimizerRule {
  std::string name;
  std::vector<OptimizerState> states;
  std::vector<OptimizerAttribute> attributes;  // beside weight_decay
  bool reads_step = false;                     // the op's last operand is the number of steps taken
  double flops = 0;                            // of the op, per element
  void (*build)(OptimizerStep& step) = nullptr;
  // The rule is for matrices inside a network only: this one updates all other variables, with its defaults and the
  // same weight decay, unless a group says otherwise. Empty: the rule is for all.
  std::string others = {};
  // A rule that wants gradients at other points than the weights (compiler/points.h). What the model computes with
  // instead of the weight in a step; null: the weight. It reads no gradient.
  Tensor (*point)(const OptimizerStep& step) = nullptr;
  // What is done with the gradient at the weight before each step, and where the anchor moves; null: nothing.
  void (*half)(OptimizerStep& step) = nullptr;
  // What the model computes with for `half`; null: the weight.
  Tensor (*half_point)(const OptimizerStep& step) = nullptr;
  void (*anchor)(OptimizerStep& step) = nullptr;
};

// The attribute that says of how many batches the gradient at an anchor is; without it, of one.
inline constexpr char kAnchorBatches[] = "batches";

// "<weight>/average": the moving average of a weight.
inline constexpr char kAverageSuffix[] = "average";

// In the order in which errors list them; the first is a job's that names none, the last are those that were added.
// Rows stay where they are.
const std::deque<OptimizerRule>& OptimizerRules();
// For the rest of the process. REQUIRES: there is no rule of that name, and no other thread looks at the table.
void AddOptimizerRule(OptimizerRule rule);
// Null if there is none of that name.
const OptimizerRule* FindOptimizerRule(absl::string_view name);

}  // namespace oneflow
