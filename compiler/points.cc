#include "compiler/points.h"

namespace oneflow {
namespace {

template <typename Fn>
const UpdateOptions* FindUpdate(const OptimizerOptions& optimizer, Fn wanted) {
  const auto has = [&](const UpdateOptions& update) {
    const OptimizerRule* const rule = FindOptimizerRule(update.rule);
    return !update.frozen && rule != nullptr && wanted(*rule);
  };
  if (has(optimizer)) return &optimizer;
  for (const ParameterGroup& group : optimizer.groups) {
    if (has(group)) return &group;
  }
  return nullptr;
}

}  // namespace

const UpdateOptions* AnchoredUpdate(const OptimizerOptions& optimizer) {
  return FindUpdate(optimizer, [](const OptimizerRule& rule) { return rule.anchor != nullptr; });
}

bool GoesHalfAhead(const OptimizerOptions& optimizer) {
  return FindUpdate(optimizer, [](const OptimizerRule& rule) { return rule.half != nullptr; }) != nullptr;
}

}  // namespace oneflow
