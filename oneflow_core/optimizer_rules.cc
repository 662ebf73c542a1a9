#include "oneflow_core/optimizer_rules.h"

#include <algorithm>
#include <utility>

#include "oneflow_core/optimizers/optimizers.h"

namespace oneflow {

namespace {

std::deque<OptimizerRule>& Table() {
  static auto* const rules =
      new std::deque<OptimizerRule>{// Loshchilov and Hutter 2019, algorithm 2, decay times the rate.
                                    {.name = "adamw",
                                     .states = {{"m", "adam_m"}, {"v", "adam_v"}},
                                     .attributes = {{"beta1", 0.9, 1}, {"beta2", 0.95, 1}, {"epsilon", 1e-8}},
                                     .reads_step = true,
                                     .flops = 15},
                                    // PyTorch's: decay is added to the gradient.
                                    {.name = "sgd",
                                     .states = {{"u", "sgd_momentum"}},
                                     .attributes = {{"momentum", 0, 1}, {"nesterov", 0, 0, /*is_flag=*/true}},
                                     .flops = 7},
                                    // Chen et al. 2023, algorithm 2.
                                    {.name = "lion",
                                     .states = {{"m", "lion_momentum"}},
                                     .attributes = {{"beta1", 0.9, 1}, {"beta2", 0.99, 1}},
                                     .flops = 10},
                                    LambRule(),
                                    LarsRule(),
                                    AdafactorRule(),
                                    MuonRule(),
                                    OptimisticRule(),
                                    ExtragradientRule(),
                                    MashaRule(),
                                    MashaBatchesRule()};
  return *rules;
}

}  // namespace

const std::deque<OptimizerRule>& OptimizerRules() { return Table(); }

void AddOptimizerRule(OptimizerRule rule) { Table().push_back(std::move(rule)); }

const OptimizerRule* FindOptimizerRule(absl::string_view name) {
  const std::deque<OptimizerRule>& rules = OptimizerRules();
  const auto it =
      std::find_if(rules.begin(), rules.end(), [&](const OptimizerRule& rule) { return rule.name == name; });
  return it == rules.end() ? nullptr : &*it;
}

}  // namespace oneflow
