// Ops that pass a tensor on, and ops that exist on one place only.
#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

// Nothing is computed, so any state passes, candidates for a maximum or minimum too.
Result Identity(const RuleContext& context) {
  OF_ASSIGN_OR_RETURN(std::vector<Signature> signatures, FromText("...->...; linear 0", context));
  for (Reduction reduction : {Reduction::kMax, Reduction::kMin}) {
    signatures.push_back({{Sbp::Partial(reduction)}, {Sbp::Partial(reduction)}, "identity"});
  }
  return signatures;
}

Result Replicated(const RuleContext&) { return std::vector<Signature>{}; }

}  // namespace

RuleList Plumbing() {
  static constexpr OpRule kRules[] = {
      {"to", Identity},      {"stop_gradient", Identity},  {"boxing", Identity},
      {"fetch", Replicated}, {"sample_token", Replicated}, {"append_token", Replicated},
  };
  return kRules;
}

}  // namespace oneflow::rules
