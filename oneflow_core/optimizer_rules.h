// The rules by which an optimizer updates a weight: a row each. From a row follow the op `<name>_update`
// (oneflow_core/ops/optimizer.cc), the variables that the compiler adds (compiler/passes/optimizer.cc), and how a job's
// `train.optimizer.<name> { ... }` is read and checked (tools/job). Every rule also has the attribute `weight_decay`.
//
// A new rule needs its row, its message in proto/job.proto, its formula in kernels/optimizer_updates.h, its line in
// oneflow_core/ops/README.md, and what it is in PyTorch (test/parity/op_functions.py).
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

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
  std::string suffix;   // of the variable: "<weight>/<suffix>", like the weight, zeros at first
};

struct OptimizerRule {
  std::string name;
  std::vector<OptimizerState> states;
  std::vector<OptimizerAttribute> attributes;  // beside weight_decay
  bool reads_step = false;                     // the op's last operand is the number of steps taken
  double flops = 0;                            // per element
};

// In the order in which errors list them; the first is a job's that names none.
const std::vector<OptimizerRule>& OptimizerRules();
// Null if there is none of that name.
const OptimizerRule* FindOptimizerRule(absl::string_view name);

}  // namespace oneflow
