// Adafactor (Shazeer and Stern 2018) as Hugging Face has it, without a momentum. Of a matrix the means of the squares
// of each row and each column are kept instead of those of all elements; of more dimensions the last two are a matrix.
//
//   b = 1 - t^-decay_exponent,  s = g^2 + epsilon1
//   r = b r + (1 - b) mean of s over columns,  c = b c + (1 - b) mean of s over rows
//   u = g / sqrt(r c / mean of r), of a vector g / sqrt(v), v = b v + (1 - b) s
//   u = u / max(1, RMS(u) / clip_threshold),  a = max(epsilon2, RMS(w)) min(rate, 1 / sqrt(t))
//   w = w - decay a w - u a
//
// A threshold of 0 is none. With fixed_rate a is the rate. A rate of 0.01 otherwise gives the steps that Hugging Face's
// has where it is given none; PyTorch's has the same a.
#include "oneflow_core/functional.h"
#include "oneflow_core/optimizer_step.h"
#include "oneflow_core/optimizers/optimizers.h"

namespace oneflow {
namespace {

bool IsFactored(const Shape& weight) { return weight.rank() >= 2; }

std::optional<Shape> WithOne(const Shape& weight, int from_the_end) {
  if (!IsFactored(weight)) return std::nullopt;
  std::vector<int64_t> dims = weight.dims();
  dims[dims.size() - from_the_end] = 1;
  return Shape(std::move(dims));
}

std::optional<Shape> Rows(const Shape& weight) { return WithOne(weight, 1); }
std::optional<Shape> Columns(const Shape& weight) { return WithOne(weight, 2); }
std::optional<Shape> Whole(const Shape& weight) {
  return IsFactored(weight) ? std::nullopt : std::optional<Shape>(weight);
}

// `old` moved towards `now` by (1 - b) = t^-exponent: the first step takes all of `now`.
Tensor Towards(const Tensor& old, const Tensor& now, const Tensor& by) { return Add(old, Mul(Sub(now, old), by)); }

// The gradient, divided by the root of the means of its squares.
Tensor Direction(OptimizerStep& s) {
  const Tensor by = s.Power(-s.Number("decay_exponent"));
  const Tensor squares = AddScalar(Square(s.gradient()), s.Number("epsilon1"));
  if (!IsFactored(s.weight().shape())) {
    const Tensor v = Towards(s.state("v"), squares, by);
    s.SetState("v", v);
    return Mul(s.gradient(), Rsqrt(v));
  }
  const int64_t last = s.weight().shape().rank() - 1;
  const Tensor r = Towards(s.state("r"), ReduceMean(squares, {last}, /*keepdims=*/true), by);
  const Tensor c = Towards(s.state("c"), ReduceMean(squares, {last - 1}, /*keepdims=*/true), by);
  s.SetState("r", r);
  s.SetState("c", c);
  const Tensor of_rows = Rsqrt(Div(r, ReduceMean(r, {last - 1}, /*keepdims=*/true)));
  return Mul(Mul(s.gradient(), of_rows), Rsqrt(c));
}

Tensor AtLeast(const Tensor& x, double least) {
  return Maximum(x, Constant(*x.builder(), {DType::kFloat32, {}}, least));
}

void Adafactor(OptimizerStep& s) {
  Tensor u = Direction(s);
  const double threshold = s.Number("clip_threshold");
  if (threshold > 0) u = Div(u, AtLeast(Scale(s.RootMeanSquare(u), 1 / threshold), 1));
  Tensor rate = s.rate();
  if (!s.Flag("fixed_rate")) {
    rate = Mul(AtLeast(s.RootMeanSquare(s.weight()), s.Number("epsilon2")), Minimum(rate, s.Power(-0.5)));
  }
  Tensor step = Mul(u, rate);
  if (s.weight_decay() > 0) step = Add(step, Mul(s.weight(), Scale(rate, s.weight_decay())));
  s.SetWeight(Sub(s.weight(), step));
}

}  // namespace

OptimizerRule AdafactorRule() {
  return {.name = "adafactor",
          .states = {{"r", "adafactor_rows", Rows}, {"c", "adafactor_columns", Columns}, {"v", "adafactor_v", Whole}},
          .attributes = {{"decay_exponent", 0.8},
                         {"clip_threshold", 1},
                         {"epsilon1", 1e-30},
                         {"epsilon2", 1e-3},
                         {"fixed_rate", 0, 0, /*is_flag=*/true}},
          .build = Adafactor};
}

}  // namespace oneflow
