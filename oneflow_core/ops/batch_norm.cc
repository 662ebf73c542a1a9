// Normalisation of channels, which are dimension 1, over all other dimensions. It comes in parts, because its
// statistics are sums over the batch, and parts of a split batch only have addends of them:
//
//   mean = channel_mean(x)    var = channel_variance(x, mean)    y = (x - mean) / sqrt(var + epsilon) * gamma + beta
//
// A part divides by the logical count, so statistics of a split batch are P and become B by a reduction of c numbers,
// and every layout normalises by the statistics of the whole batch. So does the gradient:
//
//   h = (x - mean) rstd    dgamma = sum dy h,  dbeta = sum dy    dx = gamma rstd (dy - dbeta / N - h dgamma / N)
//
// with N elements per channel. Numbers of channels are f32, whatever x is. These two ops have the paths through mean
// and var in them and are the gradient where `training` says that mean and var are x's own. Otherwise mean and var are
// operands like the others.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ops/per_channel.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> Statistics(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckHasElements(c, c.inputs[0]));
  return Outputs({PerChannel(c.inputs[0])});
}

absl::StatusOr<Types> InferChannelMean(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(2)}}));
  return Statistics(c);
}

absl::StatusOr<Types> InferChannelVariance(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(2)}, {"mean", kFloat32}}));
  OF_RETURN_IF_ERROR(CheckPerChannel(c, c.inputs[0], 1, {"mean"}));
  return Statistics(c);
}

absl::StatusOr<Types> InferBatchNorm(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(
      c, {{"x", kFloat, AtLeast(2)}, {"gamma", kFloat32}, {"beta", kFloat32}, {"mean", kFloat32}, {"var", kFloat32}}));
  const TensorType& x = c.inputs[0];
  OF_RETURN_IF_ERROR(CheckPerChannel(c, x, 1, {"gamma", "beta", "mean", "var"}));
  OF_RETURN_IF_ERROR(CheckNotNegative(c.attrs, "epsilon"));
  OF_RETURN_IF_ERROR(BoolAttrOr(c.attrs, "training", false).status());
  return Outputs({x});
}

absl::StatusOr<Types> InferBatchNormSums(const InferContext& c) {
  OF_RETURN_IF_ERROR(
      CheckOperands(c, {{"dy", kFloat}, {"x", kFloat, AtLeast(2)}, {"mean", kFloat32}, {"var", kFloat32}}));
  const TensorType& x = c.inputs[1];
  OF_RETURN_IF_ERROR(CheckSame("dy", c.inputs[0], "x", x));
  OF_RETURN_IF_ERROR(CheckPerChannel(c, x, 2, {"mean", "var"}));
  OF_RETURN_IF_ERROR(CheckNotNegative(c.attrs, "epsilon"));
  return Outputs({PerChannel(x), PerChannel(x)});
}

absl::StatusOr<Types> InferBatchNormDx(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat},
                                       {"x", kFloat, AtLeast(2)},
                                       {"gamma", kFloat32},
                                       {"mean", kFloat32},
                                       {"var", kFloat32},
                                       {"dgamma", kFloat32},
                                       {"dbeta", kFloat32}}));
  const TensorType& x = c.inputs[1];
  OF_RETURN_IF_ERROR(CheckSame("dy", c.inputs[0], "x", x));
  OF_RETURN_IF_ERROR(CheckPerChannel(c, x, 2, {"gamma", "mean", "var", "dgamma", "dbeta"}));
  OF_RETURN_IF_ERROR(CheckNotNegative(c.attrs, "epsilon"));
  return Outputs({x});
}

Tensor CastTo(GradContext& c, Tensor x, DType dtype) {
  if (x.type().dtype == dtype) return x;
  return c.Call1("cast", {x}, {{"dtype", std::string(Name(dtype))}});
}

// Numbers of channels, shaped and typed to broadcast against `x`.
Tensor Along(GradContext& c, const TensorType& x, Tensor numbers) {
  numbers = CastTo(c, numbers, x.dtype);
  if (x.shape.rank() == 2) return numbers;
  std::vector<int64_t> sizes(x.shape.rank() - 1, 1);
  sizes[0] = x.shape[1];
  return c.Call1("reshape", {numbers}, {{"shape", std::move(sizes)}});
}

// mean = sum of x / N.
absl::Status ChannelMeanGrad(GradContext& c) {
  const TensorType x = c.input(0).type();  // a copy: adding nodes moves the types of the graph
  const double ratio = static_cast<double>(x.shape[1]) / static_cast<double>(x.shape.count());
  const Tensor share = Along(c, x, c.Call1("scale", {*c.output_grad(0)}, {{"alpha", ratio}}));
  c.SetInputGrad(0, c.Call1("broadcast_to", {share}, {{"shape", x.shape.dims()}}));
  return absl::OkStatus();
}

// var = sum of (x - mean)^2 / N: dx = dvar (x - mean) 2 / N, dmean = -sum of dx.
absl::Status ChannelVarianceGrad(GradContext& c) {
  const TensorType x = c.input(0).type();  // a copy: adding nodes moves the types of the graph
  const double ratio = 2 * static_cast<double>(x.shape[1]) / static_cast<double>(x.shape.count());
  const Tensor distance = c.Call1("sub", {c.input(0), Along(c, x, c.input(1))});
  const Tensor slope = Along(c, x, c.Call1("scale", {*c.output_grad(0)}, {{"alpha", ratio}}));
  const Tensor dx = c.Call1("mul", {distance, slope});
  c.SetInputGrad(0, dx);
  if (!c.needs_grad(1)) return absl::OkStatus();
  c.SetInputGrad(1, c.Call1("neg", {c.Call1("bias_grad", {dx}, {{"axis", int64_t{1}}})}));
  return absl::OkStatus();
}

// dgamma and dbeta.
std::vector<Tensor> Sums(GradContext& c, const AttrMap& epsilon) {
  return c.Call("batch_norm_sums", {*c.output_grad(0), c.input(0), c.input(3), c.input(4)}, epsilon);
}

// mean and var are x's own, and what flows through them is in dx.
absl::Status TrainingGrad(GradContext& c, const AttrMap& epsilon) {
  const std::vector<Tensor> sums = Sums(c, epsilon);
  c.SetInputGrad(1, sums[0]);
  c.SetInputGrad(2, sums[1]);
  if (!c.needs_grad(0)) return absl::OkStatus();
  c.SetInputGrad(
      0, c.Call1("batch_norm_dx", {*c.output_grad(0), c.input(0), c.input(1), c.input(3), c.input(4), sums[0], sums[1]},
                 epsilon));
  return absl::OkStatus();
}

// Of five independent operands: with slope = gamma rstd, dx = slope dy, dmean = -slope dbeta, dvar = -slope rstd
// dgamma / 2.
absl::Status GivenStatisticsGrad(GradContext& c, const AttrMap& epsilon) {
  const TensorType x = c.input(0).type();
  const Tensor rstd = c.Call1("rsqrt", {c.Call1("add_scalar", {c.input(4)}, {{"alpha", epsilon.Double("epsilon")}})});
  const Tensor slope = c.Call1("mul", {c.input(1), rstd});
  if (c.needs_grad(0)) c.SetInputGrad(0, c.Call1("mul", {*c.output_grad(0), Along(c, x, slope)}));
  if (!c.needs_grad(1) && !c.needs_grad(2) && !c.needs_grad(3) && !c.needs_grad(4)) return absl::OkStatus();
  const std::vector<Tensor> sums = Sums(c, epsilon);
  c.SetInputGrad(1, sums[0]);
  c.SetInputGrad(2, sums[1]);
  if (c.needs_grad(3)) c.SetInputGrad(3, c.Call1("neg", {c.Call1("mul", {slope, sums[1]})}));
  if (c.needs_grad(4)) {
    const Tensor product = c.Call1("mul", {c.Call1("mul", {slope, rstd}), sums[0]});
    c.SetInputGrad(4, c.Call1("scale", {product}, {{"alpha", -0.5}}));
  }
  return absl::OkStatus();
}

absl::Status BatchNormGrad(GradContext& c) {
  const AttrMap epsilon = {{"epsilon", c.attrs().Double("epsilon")}};
  return c.attrs().Bool("training") ? TrainingGrad(c, epsilon) : GivenStatisticsGrad(c, epsilon);
}

}  // namespace

void AddBatchNormOps(OpRegistry& registry) {
  constexpr Precision kFollow = Precision::kFollow;
  registry.Add({.name = "channel_mean",
                .infer = InferChannelMean,
                .grad = ChannelMeanGrad,
                .flops = FlopsOfInput,
                .precision = kFollow,
                .blocks = BlocksByChannel});
  registry.Add({.name = "channel_variance",
                .infer = InferChannelVariance,
                .grad = ChannelVarianceGrad,
                .flops = FlopsOfInput,
                .precision = kFollow,
                .full_inputs = {1},
                .blocks = BlocksByChannel});
  registry.Add({.name = "batch_norm",
                .infer = InferBatchNorm,
                .grad = BatchNormGrad,
                .in_place = {{0, 0}},
                .precision = kFollow,
                .full_inputs = {1, 2, 3, 4},
                .blocks = BlocksByChannel});
  registry.Add({.name = "batch_norm_sums",
                .infer = InferBatchNormSums,
                .flops = FlopsOfInput,
                .precision = kFollow,
                .full_inputs = {2, 3},
                .blocks = BlocksByChannel});
  registry.Add({.name = "batch_norm_dx",
                .infer = InferBatchNormDx,
                .in_place = {{0, 0}},
                .precision = kFollow,
                .full_inputs = {2, 3, 4, 5, 6},
                .blocks = BlocksByChannel});
}

}  // namespace oneflow::ops
