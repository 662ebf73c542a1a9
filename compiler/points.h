// Gradients at other points than the weights: rules for games, whose players want different things of one loss
// (variational inequalities). A rule of an optimizer says which points (oneflow_core/optimizer_rules.h):
//
//   train/half     before every step: the gradient at the weights, or at   rules with `half`     extragradient,
//                  `half_point`                                                                  masha_batches
//   train          the model computes with points instead of the weights   rules with `point`    the same, masha
//   train/anchor   before the first step, and behind a step whose coin     rules with `anchor`   masha
//                  falls so: the gradient at the weights, exactly
//
// All three are the graph that is trained, on the same batch (train/anchor of masha_batches: on many); only `train`
// counts a step, is told of and averages. A player who wants the loss to be large is a group of variables with
// `ascent`.
#pragma once

#include "compiler/options.h"
#include "oneflow_core/optimizer_rules.h"

namespace oneflow {

inline constexpr char kHalfPlan[] = "train/half", kAnchorPlan[] = "train/anchor";

// What updates of a graph that is trained do.
enum class StepKind { kStep, kHalf, kAnchor };
inline StepKind StepKindOf(const Graph& graph) {
  if (graph.name() == kHalfPlan) return StepKind::kHalf;
  return graph.name() == kAnchorPlan ? StepKind::kAnchor : StepKind::kStep;
}

// The rule of the job, or of a group, that has an anchor; null: none has.
const UpdateOptions* AnchoredUpdate(const OptimizerOptions& optimizer);
// Whether a rule of the job wants gradients half a step ahead.
bool GoesHalfAhead(const OptimizerOptions& optimizer);

}  // namespace oneflow
