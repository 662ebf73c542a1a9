#include "oneflow_core/ops/ops.h"

namespace oneflow {

OpRegistry StandardOps() {
  OpRegistry registry;
  ops::AddSourceOps(registry);
  ops::AddPlumbingOps(registry);
  ops::AddBinaryOps(registry);
  ops::AddUnaryOps(registry);
  ops::AddCastOp(registry);
  ops::AddBiasOps(registry);
  ops::AddDropoutOp(registry);
  ops::AddReduceOps(registry);
  ops::AddBroadcastOps(registry);
  ops::AddReshapeOp(registry);
  ops::AddTransposeOp(registry);
  ops::AddSliceOps(registry);
  ops::AddConcatOp(registry);
  ops::AddPadOp(registry);
  ops::AddCumsumOp(registry);
  ops::AddMatmulOps(registry);
  ops::AddBatchMatmulOp(registry);
  ops::AddSoftmaxOps(registry);
  ops::AddSoftmaxPartsOps(registry);
  ops::AddLayerNormOps(registry);
  ops::AddRmsNormOps(registry);
  ops::AddBatchNormOps(registry);
  ops::AddEmbeddingOps(registry);
  ops::AddIndexOps(registry);
  ops::AddAttentionOps(registry);
  ops::AddCrossEntropyOps(registry);
  ops::AddConv2dOps(registry);
  ops::AddMaxPool2dOps(registry);
  ops::AddOptimizerOps(registry);
  ops::AddGenerationOps(registry);
  ops::AddReplicaOps(registry);
  return registry;
}

}  // namespace oneflow
