// Quantised gradients (QSGD; Alistarh et al., NeurIPS 2017), by levels between the least and the largest value of a
// bucket, as CGX has them: every rank quantises its addend, gets of all ranks' codes those of a part of the buckets,
// adds up what they mean, and sends the sum quantised once more. So a sum is rounded twice, whatever the number of
// ranks, and all ranks have the same bits. Rounding is at random and right on average.
//
// The all-to-all and the all-gather together move what an all-reduce of the codes would.
#include <cmath>

#include "compiler/passes/edges/codec.h"
#include "oneflow_core/functional.h"

namespace oneflow {
namespace {

double Buckets(double elements, const CompressOptions& options) {
  return std::ceil(elements / static_cast<double>(options.bucket));
}

double BytesOfLevels(double n, double m, double /*ranks*/, const CompressOptions& options) {
  const double bytes_of_bucket = static_cast<double>(options.bucket) / 8 * options.parameter + 2 * sizeof(float);
  return Buckets(n * m, options) * bytes_of_bucket;
}

struct Levels {
  Tensor codes, ranges;
};

int64_t BitsOf(double /*n*/, double /*m*/, const CompressOptions& options) {
  return static_cast<int64_t>(options.parameter);
}

// x, of the dimensions [n,m], in buckets.
Tensor InBuckets(const Tensor& x, int64_t bucket) {
  const int64_t elements = x.shape().count(), buckets = (elements + bucket - 1) / bucket;
  Tensor flat = Reshape(x, {elements});
  if (buckets * bucket != elements) flat = Pad(flat, {0}, {buckets * bucket - elements});
  return Reshape(flat, {buckets, bucket});
}

Tensor ErrorsOfBits(GraphEditor& b, const Tensor& x, const std::vector<int64_t>& counts,
                    const CompressOptions& options) {
  const Tensor rows = InBuckets(x, options.bucket);
  std::vector<Tensor> errors;
  for (const int64_t bits : counts) {
    const std::vector<Tensor> made = b.Op("quantize", {rows}, {{"bits", bits}, {"stochastic", true}});
    errors.push_back(Reshape(ReduceSum(Square(b.Op1("dequantize", made, {{"bits", bits}}) - rows)), {1}));
  }
  return Concat(errors, 0);
}

Tensor SumOfLevels(CodecStep& step) {
  GraphEditor& b = step.editor();
  const int64_t elements = step.rows() * step.columns(), ranks = step.ranks(), bucket = step.options().bucket;
  const int64_t buckets = static_cast<int64_t>(Buckets(static_cast<double>(elements), step.options()));
  const AttrMap bits = {{"bits", step.room()}};
  const auto quantize = [&](const Tensor& x) -> Levels {
    AttrMap attrs = bits;
    attrs.Set("stochastic", true);
    std::vector<Tensor> made = b.Op("quantize", step.WithUsed({x}), attrs);
    return {step.KeepUsedBytes(step.Made(made[0], Sbp::Split(0)), bucket / 8), step.Made(made[1], Sbp::Split(0))};
  };
  const auto dequantize = [&](const Tensor& codes, const Tensor& ranges) {
    return b.Op1("dequantize", step.WithUsed({step.Padded(codes), ranges}), bits);
  };
  Tensor rows = step.AsRows(Reshape(step.InAddends(step.addends(), /*split=*/false), {elements}));
  if (buckets * bucket != elements) rows = Pad(rows, {0, 0}, {0, buckets * bucket - elements});
  const Levels own = quantize(Reshape(rows, {ranks, buckets, bucket}));
  const Tensor of_all = dequantize(step.Across(own.codes), step.Across(own.ranges));
  const Tensor part = step.Made(ReduceSum(step.Made(of_all, Sbp::Split(1)), {0}), Sbp::Split(0));
  const Levels sums = quantize(part);
  const Tensor sum = dequantize(step.Everywhere(sums.codes), step.Everywhere(sums.ranges));
  const Tensor all = Reshape(step.Made(sum, Sbp::Broadcast()), {buckets * bucket});
  return Reshape(Slice(all, 0, 0, elements), {step.rows(), step.columns()});
}

}  // namespace

Codec QuantCodec() {
  return {.name = "QUANT",
          .parameter = "number of bits",
          .least = 1,
          .most = 8,
          .is_whole = true,
          .bytes = BytesOfLevels,
          .sum = SumOfLevels,
          .count = BitsOf,
          .errors = ErrorsOfBits};
}

}  // namespace oneflow
