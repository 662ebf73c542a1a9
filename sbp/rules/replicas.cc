// Digests of what ranks hold: dimension i of the digests is axis i of the mesh, so a rank's own number lies where the
// rank does.
#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

std::vector<Sbp> StatesOf(const Shape& shape) {
  std::vector<Sbp> states = {Sbp::Broadcast(), Sbp::Partial(), Sbp::Partial(Reduction::kMax),
                             Sbp::Partial(Reduction::kMin)};
  for (int d = 0; d < shape.rank(); ++d) states.push_back(Sbp::Split(d));
  return states;
}

Result ReplicaDigest(const RuleContext& context) {
  std::vector<Signature> signatures;
  for (const Sbp& x : StatesOf(context.inputs[0].shape)) {
    for (int axis = 0; axis < context.outputs[0].shape.rank(); ++axis) {
      signatures.push_back({{x}, {Sbp::Split(axis)}, "a number of each rank"});
    }
  }
  return signatures;
}

Result AssertReplicas(const RuleContext& context) {
  std::vector<Signature> signatures;
  for (const Sbp& x : StatesOf(context.inputs[0].shape)) {
    signatures.push_back({{x, Sbp::Broadcast()}, {x}, "compared along the axis"});
    for (int axis = 0; axis < context.inputs[1].shape.rank(); ++axis) {
      signatures.push_back({{x, Sbp::Split(axis)}, {x}, "not compared along the axis"});
    }
  }
  return signatures;
}

}  // namespace

RuleList Replicas() {
  static constexpr OpRule kRules[] = {
      {"replica_digest", ReplicaDigest},
      {"assert_replicas", AssertReplicas},
  };
  return kRules;
}

}  // namespace oneflow::rules
