#include "compiler/passes/loss_scale.h"

#include "absl/strings/str_format.h"

namespace oneflow {
namespace {

// The values of PyTorch's GradScaler and Megatron-LM.
constexpr double kGrowth = 2, kBackoff = 0.5;

}  // namespace

bool ScalesLoss(const Graph& graph) {
  if (!graph.is_trained()) return false;
  for (ValueId value = 0; value < graph.num_values(); ++value) {
    if (graph.value(value).type.dtype == DType::kFloat16) return true;
  }
  return false;
}

Tensor LossScale(GraphBuilder& builder, const PrecisionOptions& precision) {
  return builder.Variable(kLossScale, {DType::kFloat32, {}},
                          absl::StrFormat("constant(%.17g)", precision.initial_scale), {}, /*trainable=*/false);
}

Unscaled Unscale(GraphBuilder& builder, const Tensor& squares, const PrecisionOptions& precision) {
  std::vector<Tensor> results = builder.Op("unscale", {squares, LossScale(builder, precision)}, {},
                                           std::source_location::current(), "optimizer/unscale");
  results.resize(3);
  return {results[0], results[1], results[2]};
}

void UpdateLossScale(GraphBuilder& builder, const Tensor& scale, const PrecisionOptions& precision) {
  const Tensor good_steps = builder.Variable(kGoodSteps, {DType::kInt64, {}}, "zeros", {}, /*trainable=*/false);
  builder.Op("loss_scale_update", {LossScale(builder, precision), good_steps, scale},
             {{"growth", kGrowth}, {"backoff", kBackoff}, {"interval", precision.growth_interval}},
             std::source_location::current(), "optimizer/loss_scale/update");
}

}  // namespace oneflow
