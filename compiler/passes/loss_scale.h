// Loss scaling. f16 cannot hold small gradients, so the loss is multiplied by a scale before differentiation, and
// gradients are divided by it, in f32, before they are used. The scale is a variable of the job. It is halved after a
// step whose gradients overflowed, and doubled after many steps without overflow. A step with overflow is skipped:
// weights, the optimizer's state and its count of steps stay as before.
//
//   loss_scale --> gradient of the loss ... w/grad --> sum of squares --> unscale --> scale, NaN: the step is skipped
//   scale --> every update, increment of the step, loss_scale_update (loss_scale, good_steps mut)
//
// Finite gradients need no check of their own. The norm of all gradients is measured in any case, it is one number for
// all ranks and stages, and it is finite if they are. Every update knows the factor of gradients, too. So nothing is
// read twice, and nothing more travels than without loss scaling, except the loss scale to the last stage.
#pragma once

#include "compiler/options.h"
#include "oneflow_core/builder.h"

namespace oneflow {

// The names of its variables.
inline constexpr char kLossScale[] = "optimizer/loss_scale", kGoodSteps[] = "optimizer/good_steps";

// Whether the gradients of the graph are those of a scaled loss: it is trained, and something in it is f16. (bf16 has
// the range of f32.) REQUIRES: it is not differentiated yet, or this held when it was.
bool ScalesLoss(const Graph& graph);

// The variable "optimizer/loss_scale", f32[]; creates it if necessary, with the role of the builder.
Tensor LossScale(GraphBuilder& builder, const PrecisionOptions& precision);

// The scale of gradients, the count of steps and the loss scale, derived from the sum of squares of all gradients. New
// nodes have the role of the builder.
struct Unscaled {
  Tensor squares;  // of the unscaled gradients
  Tensor scale;    // the factor for all gradients; NaN: the step is skipped
  Tensor skipped;  // 1 or 0
};
Unscaled Unscale(GraphBuilder& builder, const Tensor& squares, const PrecisionOptions& precision);
// What the step, which had gradients of that scale, makes of the loss' scale.
void UpdateLossScale(GraphBuilder& builder, const Tensor& scale, const PrecisionOptions& precision);

}  // namespace oneflow
