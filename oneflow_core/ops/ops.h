// The ops that exist. Their contract (operands, attributes, rules) is the table in oneflow_core/ops/README.md; each
// family has a file of its own, which holds its types, its rule and its gradient.
#pragma once

#include "oneflow_core/op.h"

// The families: each has a file of its own, with the function Add<Family>Ops(). What tests know of it is in
// test/support/ops, in a file of the same name.
#define ONEFLOW_OP_FAMILIES(FAMILY) \
  FAMILY(Source)                    \
  FAMILY(Plumbing)                  \
  FAMILY(Binary)                    \
  FAMILY(Unary)                     \
  FAMILY(Compare)                   \
  FAMILY(Cast)                      \
  FAMILY(Bias)                      \
  FAMILY(Dropout)                   \
  FAMILY(Reduce)                    \
  FAMILY(Broadcast)                 \
  FAMILY(Reshape)                   \
  FAMILY(Transpose)                 \
  FAMILY(Slice)                     \
  FAMILY(Concat)                    \
  FAMILY(Pad)                       \
  FAMILY(Cumsum)                    \
  FAMILY(Matmul)                    \
  FAMILY(BatchMatmul)               \
  FAMILY(PackedMatmul)              \
  FAMILY(Softmax)                   \
  FAMILY(SoftmaxParts)              \
  FAMILY(LayerNorm)                 \
  FAMILY(RmsNorm)                   \
  FAMILY(BatchNorm)                 \
  FAMILY(Elementwise)               \
  FAMILY(Embedding)                 \
  FAMILY(Index)                     \
  FAMILY(Attention)                 \
  FAMILY(Rotary)                    \
  FAMILY(Recurrence)                \
  FAMILY(CrossEntropy)              \
  FAMILY(Ctc)                       \
  FAMILY(Codec)                     \
  FAMILY(Conv2d)                    \
  FAMILY(MaxPool2d)                 \
  FAMILY(AvgPool2d)                 \
  FAMILY(Reorder)                   \
  FAMILY(Optimizer)                 \
  FAMILY(Generation)                \
  FAMILY(Replica)                   \
  FAMILY(Ragged)                    \
  FAMILY(Fused)

namespace oneflow {

// Every op of the table, and those that were added. main() calls it once and passes the registry down.
OpRegistry StandardOps();
// For the rest of the process: registries that are made from now on have it. REQUIRES: there is no op of that name.
// Not while another thread makes a registry.
void AddStandardOp(OpDef op);

namespace ops {

#define ONEFLOW_DECLARE_OPS(Family) void Add##Family##Ops(OpRegistry& registry);
ONEFLOW_OP_FAMILIES(ONEFLOW_DECLARE_OPS)
#undef ONEFLOW_DECLARE_OPS

}  // namespace ops
}  // namespace oneflow
