// Random-k with a seed that all ranks share: the same elements of every rank's addend are added up, times the inverse
// of the probability of each, so that the sum is right on average and no index travels.
//
// Elements are drawn in strata: of each s neighbours one, s = ceil(1 / density). Each is drawn with probability 1 / s,
// so the variance is that of k drawn elements, (s - 1) |x|^2; the draw costs k numbers and no sorting.
#include <algorithm>
#include <cmath>

#include "compiler/passes/edges/codec.h"
#include "oneflow_core/functional.h"

namespace oneflow {
namespace {

double Stratum(double elements, const CompressOptions& options) {
  return std::min(elements, std::ceil(1 / options.parameter));
}

double BytesOfDrawn(double n, double m, double /*ranks*/, const CompressOptions& options) {
  return 4 * std::ceil(n * m / Stratum(n * m, options));
}

Tensor SumOfDrawn(CodecStep& step) {
  const int64_t elements = step.rows() * step.columns();
  const int64_t size = static_cast<int64_t>(Stratum(static_cast<double>(elements), step.options()));
  const int64_t count = (elements + size - 1) / size;
  Tensor x = Reshape(step.InAddends(step.addends(), /*split=*/false), {elements});
  if (count * size != elements) x = Pad(x, {0}, {count * size - elements});
  const Tensor numbers = UniformLike(Constant(step.editor(), {DType::kFloat32, Shape({count, 1})}, 0));
  const Tensor drawn = Cast(Scale(numbers, static_cast<double>(size)), DType::kInt32);
  const Tensor own = step.Made(TakeAlong(Reshape(x, {count, size}), drawn), Sbp::Partial());
  const Tensor sum = Scale(step.Everywhere(own), static_cast<double>(size));
  const Tensor placed = Reshape(step.Made(PutAlong(sum, drawn, size), Sbp::Broadcast()), {count * size});
  return Reshape(Slice(placed, 0, 0, elements), {step.rows(), step.columns()});
}

}  // namespace

Codec RandKCodec() {
  return {.name = "RANDK",
          .parameter = "density",
          .least = 1e-9,
          .most = 1,
          .is_whole = false,
          .bytes = BytesOfDrawn,
          .sum = SumOfDrawn};
}

}  // namespace oneflow
