// Random-k: some elements of every rank's addend are added up, times the inverse of the probability of each, so that
// the sum is right on average. No index travels. With a seed that all ranks share these are the same elements of all;
// with seeds of their own the errors of the ranks are not alike, and in the mean of W ranks W times as small, but W
// times as many values are gathered.
//
// Elements are drawn in strata: of each s neighbours one, s = ceil(1 / density). Each is drawn with probability 1 / s,
// so the variance is that of k drawn elements, (s - 1) |x|^2; the draw costs k numbers and no sorting.
//
// Perm-k (Szlendak, Tyurin, Richtarik 2021): one draw for all ranks, behind which rank r sends the r-th neighbour,
// around the stratum. With s = W every element is sent by exactly one rank; where the ranks' addends are alike, the
// mean is nearly exact.
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

double NumDrawn(double n, double m, const CompressOptions& options) {
  return std::ceil(n * m / Stratum(n * m, options));
}
// Gathered from all.
double BytesOfOwn(double n, double m, double ranks, const CompressOptions& options) {
  return 2 * ranks * NumDrawn(n, m, options);
}
double BytesOfDrawn(double n, double m, double ranks, const CompressOptions& options) {
  return options.own_seeds ? BytesOfOwn(n, m, ranks, options) : 4 * NumDrawn(n, m, options);
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

// Of one draw, rank r's: the r-th behind what is drawn, around the stratum. i32[ranks,count,1].
Tensor DrawnInTurn(CodecStep& step, int64_t count, int64_t size) {
  std::vector<double> turns;
  for (int64_t rank = 0; rank < step.ranks(); ++rank) turns.push_back(static_cast<double>(rank % size));
  const Tensor first = Cast(Drawn(step, Shape({1, count, 1}), size), DType::kFloat32);
  const Tensor at = Add(first, Constant(step.editor(), {DType::kFloat32, Shape({step.ranks(), 1, 1})}, turns));
  // Whole numbers below 2 size: half of one more keeps the quotient's rounding from a boundary.
  const double s = static_cast<double>(size);
  const Tensor around = Cast(Cast(Scale(AddScalar(at, 0.5), 1 / s), DType::kInt32), DType::kFloat32);
  return Cast(Sub(at, Scale(around, s)), DType::kInt32);
}

// The strata of a gradient's elements.
struct Strata {
  explicit Strata(const CodecStep& step)
      : elements(step.rows() * step.columns()),
        size(static_cast<int64_t>(Stratum(static_cast<double>(elements), step.options()))),
        count((elements + size - 1) / size) {}
  int64_t elements, size, count;
};

Tensor InPlace(CodecStep& step, const Tensor& placed, const Strata& strata) {
  return Reshape(Slice(Reshape(placed, {strata.count * strata.size}), 0, 0, strata.elements),
                 {step.rows(), step.columns()});
}

// `drawn`, i32[ranks,count,1]: all know what each sends, so that values travel alone.
Tensor SumOfOwn(CodecStep& step, const Strata& strata, const Tensor& drawn_of_all) {
  const Sbp own_row = Sbp::Split(0);
  const Tensor x = Reshape(step.InAddends(step.addends(), /*split=*/false), {strata.elements});
  const Tensor drawn = step.Made(drawn_of_all, Sbp::Broadcast()), own_drawn = step.OwnRows(drawn);
  const Tensor rows = InStrata(step.AsRows(x), strata.count, strata.size);
  const double times = static_cast<double>(strata.size) * step.turns();
  const Tensor taken = Scale(step.Made(TakeAlong(rows, own_drawn), own_row), times);
  const Tensor own = step.OnlyUsed(Reshape(taken, {step.ranks(), strata.count}));
  const auto placed = [&](const Tensor& values, const Tensor& where, Sbp sbp) {
    return step.Made(PutAlong(Reshape(values, {step.ranks(), strata.count, 1}), where, strata.size), sbp);
  };
  const Tensor sent = placed(own, own_drawn, own_row);
  step.set_sent(Slice(Reshape(sent, {step.ranks(), strata.count * strata.size}), 1, 0, strata.elements));
  const Tensor all = placed(step.EverywhereUsed(own), drawn, Sbp::Broadcast());
  return InPlace(step, ReduceSum(all, {0}), strata);
}

Tensor SumOfDrawn(CodecStep& step) {
  const Strata strata(step);
  if (step.options().own_seeds) {
    return SumOfOwn(step, strata, Drawn(step, Shape({step.ranks(), strata.count, 1}), strata.size));
  }
  const Tensor x = Reshape(step.InAddends(step.addends(), /*split=*/false), {strata.elements});
  const Tensor drawn = Drawn(step, Shape({strata.count, 1}), strata.size);
  const Tensor own = Scale(step.Made(TakeAlong(InStrata(x, strata.count, strata.size), drawn), Sbp::Partial()),
                           static_cast<double>(strata.size));
  return InPlace(step, step.Made(PutAlong(step.Everywhere(own), drawn, strata.size), Sbp::Broadcast()), strata);
}

Tensor SumInTurn(CodecStep& step) {
  const Strata strata(step);
  return SumOfOwn(step, strata, DrawnInTurn(step, strata.count, strata.size));
}

Codec CodecOfDensity(const char* name, double least, decltype(Codec::bytes) bytes, decltype(Codec::sum) sum) {
  return {
      .name = name, .parameter = "density", .least = least, .most = 1, .is_whole = false, .bytes = bytes, .sum = sum};
}

}  // namespace

Codec RandKCodec() { return CodecOfDensity("RANDK", 1e-9, BytesOfDrawn, SumOfDrawn); }
// Places in a stratum are computed in f32, which has to tell them apart.
Codec PermKCodec() { return CodecOfDensity("PERMK", 1e-5, BytesOfOwn, SumInTurn); }

}  // namespace oneflow
