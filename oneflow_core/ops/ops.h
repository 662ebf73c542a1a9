// The ops that exist. Their contract (operands, attributes, rules) is the table in oneflow_core/ops/README.md; each
// family has a file of its own, which holds its types, its rule and its gradient.
#pragma once

#include "oneflow_core/op.h"

namespace oneflow {

// Every op of the table. main() calls it once and passes the registry down.
OpRegistry StandardOps();

namespace ops {

// One function per file; StandardOps() calls them all.
void AddSourceOps(OpRegistry& registry);
void AddPlumbingOps(OpRegistry& registry);
void AddBinaryOps(OpRegistry& registry);
void AddUnaryOps(OpRegistry& registry);
void AddCastOp(OpRegistry& registry);
void AddBiasOps(OpRegistry& registry);
void AddDropoutOp(OpRegistry& registry);
void AddReduceOps(OpRegistry& registry);
void AddBroadcastOps(OpRegistry& registry);
void AddReshapeOp(OpRegistry& registry);
void AddTransposeOp(OpRegistry& registry);
void AddSliceOps(OpRegistry& registry);
void AddConcatOp(OpRegistry& registry);
void AddPadOp(OpRegistry& registry);
void AddCumsumOp(OpRegistry& registry);
void AddMatmulOps(OpRegistry& registry);
void AddBatchMatmulOp(OpRegistry& registry);
void AddSoftmaxOps(OpRegistry& registry);
void AddSoftmaxPartsOps(OpRegistry& registry);
void AddLayerNormOps(OpRegistry& registry);
void AddRmsNormOps(OpRegistry& registry);
void AddBatchNormOps(OpRegistry& registry);
void AddEmbeddingOps(OpRegistry& registry);
void AddIndexOps(OpRegistry& registry);
void AddAttentionOps(OpRegistry& registry);
void AddCrossEntropyOps(OpRegistry& registry);
void AddConv2dOps(OpRegistry& registry);
void AddMaxPool2dOps(OpRegistry& registry);
void AddOptimizerOps(OpRegistry& registry);
void AddGenerationOps(OpRegistry& registry);
void AddReplicaOps(OpRegistry& registry);

}  // namespace ops
}  // namespace oneflow
