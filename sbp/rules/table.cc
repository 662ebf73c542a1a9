// Which ops have a rule of their own.
#include "sbp/rules/rules.h"

namespace oneflow {
namespace {

constexpr rules::RuleList (*kFiles[])() = {
    rules::Sources, rules::Plumbing,   rules::Reductions, rules::Reshapes, rules::Shapes, rules::BatchNorms,
    rules::Codecs,  rules::Attentions, rules::Indices,    rules::Replicas, rules::Ragged, rules::PackedProducts,
};

}  // namespace

std::vector<rules::OpRule> AllRules() {
  std::vector<rules::OpRule> all;
  for (const auto& file : kFiles) all.insert(all.end(), file().begin(), file().end());
  return all;
}

RuleFn FindRule(absl::string_view op) {
  for (const auto& file : kFiles) {
    for (const rules::OpRule& it : file()) {
      if (it.op == op) return it.rule;
    }
  }
  return nullptr;
}

}  // namespace oneflow
