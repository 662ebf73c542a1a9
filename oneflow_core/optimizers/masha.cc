// MASHA (Beznosikov, Richtarik, Diskin, Ryabinin and Gasnikov, NeurIPS 2022): extragradient whose first gradient is one
// that was taken at an anchor, and not again. With probability p the weight of a step becomes the anchor, and its
// gradient is taken, exactly; else a step takes one gradient.
//
//   c = (1 - p) w + p anchor       half = c - rate g(anchor)       w = c - rate g(half)       g(x): with decay x
//
// Where gradients travel as codes, what is coded is g(half) - g(anchor) of each rank, which is the smaller the nearer
// both are: MASHA1 with a code that is right on average, MASHA2 with one that has error feedback.
//
// Gradients of single batches differ at every point, so both of a difference are to be of one batch (the paper's
// variant for finite sums). masha_batches takes the gradient at the anchor of many batches, and of each step's own
// batch once more:
//
//   w = c - rate (g_batch(half) - g_batch(anchor) + g_many(anchor))
#include "oneflow_core/functional.h"
#include "oneflow_core/optimizer_step.h"
#include "oneflow_core/optimizers/optimizers.h"

namespace oneflow {
namespace {

Tensor Centre(const OptimizerStep& s) {
  return OptimizerStep::Average(1 - s.Number("probability"), s.weight(), s.state("anchor"));
}

Tensor HalfFromAnchor(const OptimizerStep& s) { return Sub(Centre(s), Mul(s.state("gradient"), s.rate())); }

void MoveAnchor(OptimizerStep& s) {
  s.SetState("anchor", s.weight());
  s.SetState("gradient", s.DecayedGradient(s.weight()));
}

void Masha(OptimizerStep& s) { s.SetWeight(Sub(Centre(s), Mul(s.DecayedGradient(HalfFromAnchor(s)), s.rate()))); }

Tensor Anchor(const OptimizerStep& s) { return s.state("anchor"); }

void TakeOfBatch(OptimizerStep& s) { s.SetState("batch", s.DecayedGradient(Anchor(s))); }

void MashaBatches(OptimizerStep& s) {
  const Tensor change = Sub(s.DecayedGradient(HalfFromAnchor(s)), s.state("batch"));
  s.SetWeight(Sub(Centre(s), Mul(Add(s.state("gradient"), change), s.rate())));
}

}  // namespace

OptimizerRule MashaBatchesRule() {
  return {.name = "masha_batches",
          .states = {{"anchor", "anchor"}, {"gradient", "anchor_gradient"}, {"batch", "batch_gradient"}},
          .attributes = {{"probability", 0.1, 1}, {kAnchorBatches, 8}},
          .build = MashaBatches,
          .point = HalfFromAnchor,
          .half = TakeOfBatch,
          .half_point = Anchor,
          .anchor = MoveAnchor};
}

OptimizerRule MashaRule() {
  return {.name = "masha",
          .states = {{"anchor", "anchor"}, {"gradient", "anchor_gradient"}},
          .attributes = {{"probability", 0.1, 1}},
          .build = Masha,
          .point = HalfFromAnchor,
          .anchor = MoveAnchor};
}

}  // namespace oneflow
