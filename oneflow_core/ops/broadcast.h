// NumPy broadcasting and its gradient.
#pragma once

#include "oneflow_core/grad_context.h"
#include "oneflow_core/shape.h"

namespace oneflow::ops {

// The shape both broadcast to: aligned at the last dimension, sizes equal or one of them 1. InvalidArgument if they do
// not fit.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// `grad` summed over the dimensions along which a tensor of `shape` was broadcast. `shape` is a value
// because adding nodes moves the types of the graph.
Tensor SumTo(GradContext& c, Tensor grad, Shape shape);

}  // namespace oneflow::ops
