// Top-k with error feedback (Stich, Cordonnier and Jaggi, NeurIPS 2018): every rank sends the k elements of its own
// addend and error that are largest without their signs, as pairs of value and index, and keeps the others as its
// error.
//
// An all-gather of the pairs of W ranks is of 8 W k bytes, half of what an all-reduce moves of as many.
#include <algorithm>
#include <cmath>

#include "compiler/passes/edges/codec.h"
#include "oneflow_core/functional.h"

namespace oneflow {
namespace {

double Kept(double elements, double density) { return std::max(1.0, std::floor(density * elements)); }

double BytesOfPairs(double n, double m, double ranks, const CompressOptions& options) {
  return 4 * ranks * Kept(n * m, options.parameter);
}

Tensor SumOfLargest(CodecStep& step) {
  GraphEditor& b = step.editor();
  const int64_t n = step.rows(), m = step.columns(), elements = n * m, ranks = step.ranks(), k = step.room();
  const Tensor error = step.OwnState("error", Shape({elements}), /*split=*/false);
  const Tensor addends = step.InAddends(step.addends(), /*split=*/false);
  const Tensor given = step.AsRows(Reshape(addends, {elements})) + error;
  const Sbp own_row = Sbp::Split(0);
  const Tensor indices = step.Made(TopK(b.Op1("abs", {given}), k).indices, own_row);
  const Tensor values = step.OnlyUsed(step.Made(TakeAlong(given, indices), own_row));
  const Tensor sent = step.Made(PutAlong(values, indices, elements), own_row);
  step.Set(error, given - sent);
  step.set_sent(sent);
  const Tensor all_values = Reshape(step.EverywhereUsed(values), {ranks * k});
  const Tensor all_indices = Reshape(step.EverywhereUsed(indices), {ranks * k});
  return Reshape(step.Made(ScatterAdd(all_values, all_indices, 0, elements), Sbp::Broadcast()), {n, m});
}

int64_t ElementsOf(double n, double m, const CompressOptions& options) {
  return static_cast<int64_t>(Kept(n * m, options.parameter));
}

Tensor ErrorsOfLargest(GraphEditor& b, const Tensor& x, const std::vector<int64_t>& counts, const CompressOptions&) {
  const Tensor flat = Reshape(x, {x.shape().count()});
  return SquaresBeyond(x, Square(TopK(b.Op1("abs", {flat}), counts.back()).values), counts);
}

}  // namespace

Codec TopKCodec() {
  return {.name = "TOPK",
          .parameter = "density",
          .least = 1e-9,
          .most = 1,
          .is_whole = false,
          .bytes = BytesOfPairs,
          .sum = SumOfLargest,
          .count = ElementsOf,
          .errors = ErrorsOfLargest,
          .keeps_errors = true};
}

}  // namespace oneflow
