// Loss scaling. Gradients that f16 cannot hold because they are small are made large: differentiated is the loss times
// a scale, which is divided out of gradients, in f32, before they are used. The scale is a variable of the job, half of
// itself after a step whose gradients became too large, twice itself after many that did not; such a step is skipped:
// weights, the optimizer's state and its count of steps are as before.
//
//   loss_scale --> gradient of the loss ... w/grad --> sum of squares --> unscale --> scale, NaN: the step is skipped
//   scale --> every update, increment of the step, loss_scale_update (loss_scale, good_steps mut)
//
// Whether gradients are finite needs no look at them of its own: the norm of all is measured in any case, it is one
// number for all ranks and stages, and it is finite if they are. The scale of gradients is known to every update too.
// So nothing is read twice, and nothing travels that does not without loss scaling, but the loss' scale to the last
// stage.
#pragma once

#include "compiler/options.h"
#include "oneflow_core/builder.h"

namespace oneflow {

// Its variables.
inline constexpr char kLossScale[] = "optimizer/loss_scale", kGoodSteps[] = "optimizer/good_steps";

// Whether the graph's gradients are those of a scaled loss: it is trained, and something in it is f16. (bf16 holds what
// f32 holds.) REQUIRES: it is not differentiated yet, or was while this held.
bool ScalesLoss(const Graph& graph);

// The variable "optimizer/loss_scale", f32[]; if it does not exist yet, for what the builder's role says.
Tensor LossScale(GraphBuilder& builder, const PrecisionOptions& precision);

// How the scale of gradients, the count of steps and the loss' scale are made of the sum of squares of all gradients.
// New nodes are as the builder's role says.
struct Unscaled {
  Tensor squares;  // of gradients as they should be
  Tensor scale;    // by which gradients are to be multiplied; NaN: the step is skipped
  Tensor skipped;  // 1 or 0
};
Unscaled Unscale(GraphBuilder& builder, const Tensor& squares, const PrecisionOptions& precision);
// What the step, which had gradients of that scale, makes of the loss' scale.
void UpdateLossScale(GraphBuilder& builder, const Tensor& scale, const PrecisionOptions& precision);

}  // namespace oneflow
