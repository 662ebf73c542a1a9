// Random-k: some elements of every rank's addend are added up, times the inverse of the probability of each, so that
// the sum is right on average. No index travels. With a seed that all ranks share these are the same elements of all;
// with seeds of their own the errors of the ranks are not alike, and in the mean of W ranks W times as small, but W
// times as many values are gathered.
//
// Elements are drawn in strata: of each s neighbours one, s = ceil(1 / density). Each is drawn with probability 1 / s,
// so the variance is that of k drawn elements, (s - 1) |x|^2; the draw costs k numbers and no sorting.
#include <algorithm>
#include <cmath>

#include "compiler/passes/edges/codec.h"
#include "compiler/points.h"
#include "oneflow_core/functional.h"

namespace oneflow {
namespace {

double Stratum(double elements, const CompressOptions& options) {
  return std::min(elements, std::ceil(1 / options.parameter));
}

double BytesOfDrawn(double n, double m, double ranks, const CompressOptions& options) {
  const double drawn = std::ceil(n * m / Stratum(n * m, options));
  return options.own_seeds ? 2 * ranks * drawn : 4 * drawn;
}

// Elements that are drawn from x [rows.., elements], in strata of `size`; the last one has zeros behind the elements.
Tensor InStrata(const Tensor& x, int64_t count, int64_t size) {
  std::vector<int64_t> dims = x.shape().dims();
  const int last = static_cast<int>(dims.size()) - 1;
  const int64_t more = count * size - dims[last];
  dims[last] = count;
  dims.push_back(size);
  if (more == 0) return Reshape(x, dims);
  std::vector<int64_t> before(last + 1, 0), behind(last + 1, 0);
  behind[last] = more;
  return Reshape(Pad(x, before, behind), dims);
}

// Which of each stratum: of i32[shape..,1]. The gradients of a step draw each for itself.
Tensor Drawn(CodecStep& step, const Shape& shape, int64_t size) {
  GraphEditor& b = step.editor();
  const bool half = StepKindOf(b.graph()) == StepKind::kHalf;
  const GraphBuilder::Scope scope(b, half ? "half" : "drawn");
  return Cast(Scale(UniformLike(Constant(b, {DType::kFloat32, shape}, 0)), static_cast<double>(size)), DType::kInt32);
}

Tensor SumOfDrawn(CodecStep& step) {
  const int64_t n = step.rows(), m = step.columns(), elements = n * m, ranks = step.ranks();
  const int64_t size = static_cast<int64_t>(Stratum(static_cast<double>(elements), step.options()));
  const int64_t count = (elements + size - 1) / size;
  const double scale = static_cast<double>(size);
  const Tensor x = Reshape(step.InAddends(step.addends(), /*split=*/false), {elements});
  Tensor placed;  // the sum in its strata
  if (step.options().own_seeds) {
    // All know what each draws, so that values travel alone.
    const Tensor drawn = step.Made(Drawn(step, Shape({ranks, count, 1}), size), Sbp::Broadcast());
    const Tensor rows = InStrata(step.AsRows(x), count, size);
    const Sbp own_row = Sbp::Split(0);
    const Tensor own_drawn = step.OwnRows(drawn);
    const Tensor own = Scale(step.Made(TakeAlong(rows, own_drawn), own_row), scale);
    step.set_sent(
        Slice(Reshape(step.Made(PutAlong(own, own_drawn, size), own_row), {ranks, count * size}), 1, 0, elements));
    placed = ReduceSum(step.Made(PutAlong(step.Everywhere(own), drawn, size), Sbp::Broadcast()), {0});
  } else {
    const Tensor drawn = Drawn(step, Shape({count, 1}), size);
    const Tensor own = Scale(step.Made(TakeAlong(InStrata(x, count, size), drawn), Sbp::Partial()), scale);
    placed = step.Made(PutAlong(step.Everywhere(own), drawn, size), Sbp::Broadcast());
  }
  return Reshape(Slice(Reshape(placed, {count * size}), 0, 0, elements), {n, m});
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
