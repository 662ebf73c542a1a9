// snake (Ziyin, Hartwig and Ueda 2020, equation 3): y = x + sin(a x)^2 / a, for what repeats. Its slope is
// 1 + sin(2 a x), so that its gradient is an op of its own: snake_grad(dy, x).
#include <cmath>

#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "plugin.h"
#include "snake_on_cuda.h"

namespace waves {
namespace {

namespace ops = oneflow::ops;

absl::StatusOr<std::vector<oneflow::TensorType>> InferSnake(const oneflow::InferContext& c) {
  OF_RETURN_IF_ERROR(ops::CheckOperands(c, {{"x", ops::kFloat32}}));
  OF_ASSIGN_OR_RETURN(const double a, ops::NumberAttr(c.attrs, "a"));
  if (!(a > 0)) return absl::InvalidArgumentError(absl::StrCat("a is ", a, ", but must be above 0"));
  return ops::Outputs({c.inputs[0]});
}

absl::StatusOr<std::vector<oneflow::TensorType>> InferSnakeGrad(const oneflow::InferContext& c) {
  OF_RETURN_IF_ERROR(ops::CheckOperands(c, {{"dy", ops::kFloat32}, {"x", ops::kFloat32}}));
  OF_RETURN_IF_ERROR(ops::CheckSame("dy", c.inputs[0], "x", c.inputs[1]));
  return ops::Outputs({c.inputs[1]});
}

absl::Status SnakeGradient(oneflow::GradContext& c) {
  c.SetInputGrad(0, c.Call1("snake_grad", {*c.output_grad(0), c.input(0)}, c.attrs()));
  return absl::OkStatus();
}

// A kernel sees a rank's part of each tensor.
const char* Snake(const oneflow::KernelArgs& args) {
  const float* const x = args.in[0].as<const float>();
  float* const y = args.out[0].as<float>();
  const auto a = static_cast<float>(args.attrs->Double("a"));
  for (int64_t i = 0; i < args.out[0].count; ++i) y[i] = x[i] + std::sin(a * x[i]) * std::sin(a * x[i]) / a;
  return nullptr;
}

const char* SnakeGrad(const oneflow::KernelArgs& args) {
  const float* const dy = args.in[0].as<const float>();
  const float* const x = args.in[1].as<const float>();
  float* const dx = args.out[0].as<float>();
  const auto a = static_cast<float>(args.attrs->Double("a"));
  for (int64_t i = 0; i < args.out[0].count; ++i) dx[i] = dy[i] * (1 + std::sin(2 * a * x[i]));
  return nullptr;
}

}  // namespace

void AddSnake(oneflow::Plugin& plugin) {
  // The rules: every dimension may be split, and of snake_grad, which is linear in dy, dy may be addends.
  plugin.Add(oneflow::OpDef{.name = "snake", .rule = "...->...", .infer = InferSnake, .grad = SnakeGradient});
  plugin.Add(oneflow::OpDef{.name = "snake_grad", .rule = "...,...->...; linear 0", .infer = InferSnakeGrad});
  plugin.AddCpu({"snake", oneflow::DType::kFloat32, Snake});
  plugin.AddCpu({"snake_grad", oneflow::DType::kFloat32, SnakeGrad});
#ifdef WAVES_ON_CUDA
  plugin.AddCuda({"snake", oneflow::DType::kFloat32, SnakeOnCuda});
  plugin.AddCuda({"snake_grad", oneflow::DType::kFloat32, SnakeGradOnCuda});
#endif
}

}  // namespace waves
