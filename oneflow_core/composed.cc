#include "oneflow_core/composed.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "absl/strings/str_join.h"
#include "oneflow_core/builder.h"
#include "oneflow_core/einsum.h"

namespace oneflow {
namespace {

// A scalar beside x, of its type.
Tensor Number(const Tensor& x, double value, Location loc) {
  return Constant(*x.builder(), {x.type().dtype, {}}, value, loc);
}

int FromFront(const Tensor& x, int axis) { return axis < 0 ? axis + x.shape().rank() : axis; }

// False, and the builder has failed, if x has no such dimension. A tensor that was never made has none either.
bool HasAxis(const Tensor& x, int axis, absl::string_view function) {
  if (!x.valid()) return false;
  const int rank = x.shape().rank(), at = FromFront(x, axis);
  if (at >= 0 && at < rank) return true;
  x.builder()->Fail(absl::InvalidArgumentError(
      absl::StrCat(function, ": there is no dimension ", axis, " of ", x.type().ToString())));
  return false;
}

// x with the dimensions `a` and `b` exchanged.
Tensor Exchanged(const Tensor& x, int a, int b, Location loc) {
  if (a == b) return x;
  std::vector<int64_t> perm(x.shape().rank());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[a], perm[b]);
  return Transpose(x, perm, loc);
}

// dims with `more` in front of dimension `at`.
std::vector<int64_t> WithDim(const Shape& shape, int at, int64_t size) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.insert(dims.begin() + at, size);
  return dims;
}

Tensor AsColumn(const Tensor& x, Location loc) { return Reshape(x, WithDim(x.shape(), x.shape().rank(), 1), loc); }

// x [..,1] as [..].
Tensor WithoutLast(const Tensor& x, Location loc) {
  if (!x.valid()) return x;
  std::vector<int64_t> dims(x.shape().dims().begin(), x.shape().dims().end());
  dims.pop_back();
  return Reshape(x, dims, loc);
}

Tensor Power(const Tensor& x, int power, Location loc) {
  if (power == 1) return x;
  const Tensor half = Power(x, power / 2, loc), even = Mul(half, half, loc);
  return power % 2 == 0 ? even : Mul(even, x, loc);
}

// x with `margin(y, dimension, whether before it)` at both ends of each dimension that has any. A margin has at most
// `least` elements less than the dimension; -1: any number, of a dimension that is not empty.
Tensor Padded(Tensor x, const std::vector<int64_t>& before, const std::vector<int64_t>& after, int64_t least,
              absl::string_view function, Location loc, const std::function<Tensor(const Tensor&, int, bool)>& margin) {
  if (!x.valid()) return x;
  const TensorType type = x.type();  // a copy: adding nodes moves the types of the graph
  const size_t rank = type.shape.rank();
  bool good = before.size() == rank && after.size() == rank;
  for (size_t d = 0; good && d < rank; ++d) {
    const int64_t most = std::max(before[d], after[d]), size = type.shape[static_cast<int>(d)];
    good = std::min(before[d], after[d]) >= 0 && (most == 0 || (least < 0 ? size > 0 : most + least <= size));
  }
  if (!good) {
    x.builder()->Fail(
        absl::InvalidArgumentError(absl::StrCat(function, ": [", absl::StrJoin(before, ","), "] before and [",
                                                absl::StrJoin(after, ","), "] after ", type.ToString())));
    return Tensor();
  }
  for (int d = 0; d < static_cast<int>(rank) && x.valid(); ++d) {
    std::vector<Tensor> parts;
    if (before[d] > 0) parts.push_back(margin(x, d, true));
    parts.push_back(x);
    if (after[d] > 0) parts.push_back(margin(x, d, false));
    if (parts.size() > 1) x = Concat(parts, d, loc);
  }
  return x;
}

// [to,from]: the share of each of `from` pixels in each of `to`, 1 at its place and 0 from the next pixel on.
Tensor Weights(const Tensor& x, int64_t from, int64_t to, bool align_corners, Location loc) {
  GraphBuilder& b = *x.builder();
  const double step = align_corners ? static_cast<double>(from - 1) / static_cast<double>(std::max<int64_t>(to - 1, 1))
                                    : static_cast<double>(from) / static_cast<double>(to);
  const Tensor places = Arange(b, DType::kFloat32, to, align_corners ? 0 : 0.5 * step - 0.5, step, loc);
  const Tensor inside = Reshape(Clip(places, 0, static_cast<double>(from - 1), loc), {to, 1}, loc);
  const Tensor distance = Abs(Sub(inside, Arange(b, DType::kFloat32, from, 0, 1, loc), loc), loc);
  return Cast(Relu(AddScalar(Neg(distance, loc), 1, loc), loc), x.type().dtype, loc);
}

// scores [b,heads,t,s] where a query sees a key, else so low that nothing is left of it.
Tensor OfVisible(const Tensor& scores, const AttentionHeads& heads, const Tensor& documents, Location loc) {
  if (!scores.valid()) return scores;
  GraphBuilder& b = *scores.builder();
  const int64_t batch = scores.shape()[0], t = scores.shape()[2], s = scores.shape()[3];
  Tensor visible;
  const auto also = [&](const Tensor& seen) { visible = visible.valid() ? LogicalAnd(visible, seen, loc) : seen; };
  if (heads.causal) {
    const Tensor rows = Reshape(Arange(b, DType::kInt32, t, 0, 1, loc), {t, 1}, loc);
    also(LessEqual(Arange(b, DType::kInt32, s, 0, 1, loc), rows, loc));
    const auto window = static_cast<double>(heads.window);
    if (heads.window > 0) also(Greater(Arange(b, DType::kInt32, s, window, 1, loc), rows, loc));
  }
  if (documents.valid()) {
    also(Equal(Reshape(documents, {batch, 1, t, 1}, loc), Reshape(documents, {batch, 1, 1, s}, loc), loc));
  }
  constexpr double kLow = -1e30;  // a query sees itself, so its largest score is far from this
  return visible.valid() ? Where(visible, scores, Number(scores, kLow, loc), loc) : scores;
}

}  // namespace

Tensor Clip(Tensor x, double low, double high, Location loc) {
  if (!x.valid()) return x;
  return Minimum(Maximum(x, Number(x, low, loc), loc), Number(x, high, loc), loc);
}

Tensor Pow(Tensor x, double power, Location loc) {
  if (!x.valid()) return x;
  constexpr int kMostProducts = 16;
  if (power == 0) return AddScalar(Scale(x, 0, loc), 1, loc);
  if (power == std::floor(power) && power > 0 && power <= kMostProducts) {
    return Power(x, static_cast<int>(power), loc);
  }
  return Exp(Scale(Log(x, loc), power, loc), loc);
}

Tensor SoftCap(Tensor x, double cap, Location loc) {
  return cap == 0 ? x : Scale(Tanh(Scale(x, 1 / cap, loc), loc), cap, loc);
}

Tensor SoftmaxAlong(Tensor x, int axis, Location loc) {
  if (!HasAxis(x, axis, "softmax")) return Tensor();
  const int at = FromFront(x, axis), last = x.shape().rank() - 1;
  return Exchanged(Softmax(Exchanged(x, at, last, loc), loc), at, last, loc);
}

Tensor LogSumExp(Tensor x, int axis, bool keepdims, Location loc) {
  if (!HasAxis(x, axis, "log_sum_exp")) return Tensor();
  const int64_t at = FromFront(x, axis);
  const Tensor top = ReduceMax(x, {at}, /*keepdims=*/true, loc);
  const Tensor sum = ReduceSum(Exp(Sub(x, top, loc), loc), {at}, /*keepdims=*/true, loc);
  const Tensor result = Add(Log(sum, loc), top, loc);
  return keepdims ? result : ReduceSum(result, {at}, /*keepdims=*/false, loc);
}

Tensor LogSoftmax(Tensor x, int axis, Location loc) {
  if (!HasAxis(x, axis, "log_softmax")) return Tensor();
  return Sub(x, LogSumExp(x, axis, /*keepdims=*/true, loc), loc);
}

Tensor ArgMax(Tensor x, Location loc) {
  if (!HasAxis(x, -1, "arg_max")) return Tensor();
  return WithoutLast(TopK(x, 1, loc).indices, loc);
}

Tensor OneHot(Tensor ids, int64_t classes, Location loc) {
  if (!ids.valid()) return ids;
  const Tensor columns = AsColumn(ids, loc);
  if (!columns.valid()) return columns;
  const Tensor ones = Constant(*ids.builder(), {DType::kFloat32, columns.shape()}, 1, loc);
  return PutAlong(ones, columns, classes, loc);
}

std::vector<Tensor> Split(Tensor x, int axis, const std::vector<int64_t>& sizes, Location loc) {
  std::vector<Tensor> parts(sizes.size());
  if (!HasAxis(x, axis, "split")) return parts;
  const int at = FromFront(x, axis);
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (all != x.shape()[at]) {
    x.builder()->Fail(absl::InvalidArgumentError(
        absl::StrCat("split: parts of ", all, " in all are not dimension ", at, " of ", x.type().ToString())));
    return parts;
  }
  int64_t start = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    parts[i] = Slice(x, at, start, sizes[i], loc);
    start += sizes[i];
  }
  return parts;
}

Tensor Stack(const std::vector<Tensor>& xs, int axis, Location loc) {
  std::vector<Tensor> with;
  int at = 0;
  for (const Tensor& x : xs) {
    if (!x.valid()) return Tensor();
    const int rank = x.shape().rank() + 1;
    at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) {
      x.builder()->Fail(absl::InvalidArgumentError(
          absl::StrCat("stack: there is no dimension ", axis, " of tensors ", x.type().ToString(), " side by side")));
      return Tensor();
    }
    with.push_back(Reshape(x, WithDim(x.shape(), at, 1), loc));
  }
  return Concat(with, at, loc);
}

Tensor Tile(Tensor x, const std::vector<int64_t>& repeats, Location loc) {
  if (!x.valid()) return x;
  const int rank = x.shape().rank();
  bool good = static_cast<int>(repeats.size()) == rank;
  for (const int64_t times : repeats) good = good && times >= 0;
  if (!good) {
    x.builder()->Fail(absl::InvalidArgumentError(
        absl::StrCat("tile: ", repeats.size(), " numbers of repeats, none negative, for ", x.type().ToString())));
    return Tensor();
  }
  // Each dimension has its repeats as one before it, in which x is the same.
  std::vector<int64_t> apart, all, joined;
  for (int dim = 0; dim < rank; ++dim) {
    const int64_t size = x.shape()[dim];
    apart.insert(apart.end(), {1, size});
    all.insert(all.end(), {repeats[dim], size});
    joined.push_back(repeats[dim] * size);
  }
  return Reshape(BroadcastTo(Reshape(x, apart, loc), all, loc), joined, loc);
}

Sorted Sort(Tensor x, bool descending, Location loc) {
  if (!HasAxis(x, -1, "sort")) return {};
  const Largest sorted = TopK(descending ? x : Neg(x, loc), x.shape()[x.shape().rank() - 1], loc);
  return {descending ? sorted.values : Neg(sorted.values, loc), sorted.indices};
}

Tensor PadReflect(Tensor x, const std::vector<int64_t>& before, const std::vector<int64_t>& after, Location loc) {
  return Padded(x, before, after, /*least=*/1, "pad_reflect", loc, [&](const Tensor& y, int d, bool is_before) {
    const int64_t size = is_before ? before[d] : after[d], start = is_before ? 1 : y.shape()[d] - 1 - size;
    return Flip(Slice(y, d, start, size, loc), d, loc);
  });
}

Tensor PadEdge(Tensor x, const std::vector<int64_t>& before, const std::vector<int64_t>& after, Location loc) {
  return Padded(x, before, after, /*least=*/-1, "pad_edge", loc, [&](const Tensor& y, int d, bool is_before) {
    const Tensor edge = Slice(y, d, is_before ? 0 : y.shape()[d] - 1, 1, loc);
    if (!edge.valid()) return edge;
    std::vector<int64_t> sizes(edge.shape().dims().begin(), edge.shape().dims().end());
    sizes[d] = is_before ? before[d] : after[d];
    return BroadcastTo(edge, sizes, loc);
  });
}

Tensor GroupNorm(Tensor x, Tensor gamma, Tensor beta, int64_t groups, double epsilon, Location loc) {
  if (!x.valid() || !gamma.valid() || !beta.valid()) return Tensor();
  const TensorType type = x.type();  // a copy: adding nodes moves the types of the graph
  if (type.shape.rank() < 2 || groups < 1 || type.shape[1] % groups != 0) {
    x.builder()->Fail(absl::InvalidArgumentError(absl::StrCat("group_norm: ", groups, " groups of the channels of ",
                                                              type.ToString(), ", which must be [n,c,..]")));
    return Tensor();
  }
  int64_t columns = type.shape[1] / groups;
  for (int d = 2; d < type.shape.rank(); ++d) columns *= type.shape[d];
  const TensorType row = {DType::kFloat32, {columns}};
  const Tensor ones = Constant(*x.builder(), row, 1, loc), zeros = Constant(*x.builder(), row, 0, loc);
  const Tensor rows = Reshape(x, {type.shape[0], groups, columns}, loc);
  const Tensor normal = Reshape(LayerNorm(rows, ones, zeros, epsilon, loc), type.shape.dims(), loc);
  std::vector<int64_t> per_channel(type.shape.rank() - 1, 1);
  per_channel[0] = type.shape[1];
  const Tensor scale = Reshape(Cast(gamma, type.dtype, loc), per_channel, loc);
  return BiasAdd(Mul(normal, scale, loc), beta, /*axis=*/1, loc);
}

Tensor ResizeBilinear(Tensor x, int64_t height, int64_t width, bool align_corners, Location loc) {
  if (!x.valid()) return x;
  const TensorType type = x.type();  // a copy: adding nodes moves the types of the graph
  if (type.shape.rank() != 4 || std::min({type.shape[2], type.shape[3], height, width}) < 1) {
    x.builder()->Fail(
        absl::InvalidArgumentError(absl::StrCat("resize_bilinear: ", type.ToString(), " to ", height, " x ", width,
                                                "; it must be [n,c,h,w], without empty sides")));
    return Tensor();
  }
  const Tensor rows = Weights(x, type.shape[2], height, align_corners, loc);
  return Einsum("nchw,ph,qw->ncpq", {x, rows, Weights(x, type.shape[3], width, align_corners, loc)}, loc);
}

Tensor ScoredAttention(Tensor q, Tensor k, Tensor v, const AttentionHeads& heads, const ScoreOptions& options,
                       Location loc) {
  if (!q.valid() || !k.valid() || !v.valid()) return Tensor();
  const Shape of_q = q.shape(), of_k = k.shape();
  const int64_t kv_heads = heads.kv_heads > 0 ? heads.kv_heads : heads.heads;
  const bool good = of_q.rank() == 3 && of_k.rank() == 3 && v.shape() == of_k && of_q[0] == of_k[0] &&
                    heads.heads > 0 && heads.heads % kv_heads == 0 && of_q[2] % heads.heads == 0 &&
                    of_k[2] == of_q[2] / heads.heads * kv_heads && (!heads.causal || of_q[1] == of_k[1]);
  const bool numbered =
      !options.documents.valid() || (options.documents.shape() == Shape{of_q[0], of_q[1]} && of_q[1] == of_k[1]);
  if (!good || !numbered) {
    q.builder()->Fail(absl::InvalidArgumentError(
        absl::StrCat("scored_attention: ", heads.heads, " heads of q, which is ", q.type().ToString(), ", and ",
                     kv_heads, " of k, ", k.type().ToString(), ", and v, ", v.type().ToString(),
                     numbered ? "" : absl::StrCat("; the documents are ", options.documents.type().ToString()))));
    return Tensor();
  }
  if (!options.added.valid()) {
    return AttentionWithLse(q, k, v, heads, {options.documents, options.documents}, loc).out;
  }
  const int64_t b = of_q[0], t = of_q[1], s = of_k[1], shared = heads.heads / kv_heads, size = of_q[2] / heads.heads;
  // Heads of q that share one of k are rows of one product.
  const Tensor queries = Reshape(Transpose(Reshape(q, {b, t, kv_heads, shared, size}, loc), {0, 2, 3, 1, 4}, loc),
                                 {b, kv_heads, shared * t, size}, loc);
  const auto by_head = [&](const Tensor& x) {
    return Transpose(Reshape(x, {b, s, kv_heads, size}, loc), {0, 2, 1, 3}, loc);
  };
  const double scale = heads.scale != 0 ? heads.scale : 1 / std::sqrt(static_cast<double>(size));
  Tensor scores = Scale(BatchMatMul(queries, by_head(k), false, /*transpose_b=*/true, loc), scale, loc);
  scores = Reshape(scores, {b, heads.heads, t, s}, loc);
  scores = Add(SoftCap(scores, heads.soft_cap, loc), options.added, loc);
  scores = OfVisible(scores, heads, options.documents, loc);
  const Tensor p = Reshape(Dropout(Softmax(scores, loc), heads.dropout, loc), {b, kv_heads, shared * t, s}, loc);
  const Tensor out = Reshape(BatchMatMul(p, by_head(v), false, false, loc), {b, kv_heads, shared, t, size}, loc);
  return Reshape(Transpose(out, {0, 3, 1, 2, 4}, loc), {b, t, heads.heads * size}, loc);
}

Tensor SquaredError(Tensor x, Tensor target, Location loc) { return Square(Sub(x, target, loc), loc); }

Tensor BinaryCrossEntropy(Tensor logits, Tensor target, Location loc) {
  return Sub(Softplus(logits, loc), Mul(logits, target, loc), loc);
}

Tensor HingeLoss(Tensor x, Tensor target, double margin, Location loc) {
  return Relu(AddScalar(Neg(Mul(x, target, loc), loc), margin, loc), loc);
}

Tensor KlDivergence(Tensor log_x, Tensor target, Location loc) {
  if (!target.valid()) return target;
  constexpr double kLeast = 1e-37;  // a logarithm that times 0 is 0
  const Tensor log_target = Log(Maximum(target, Number(target, kLeast, loc), loc), loc);
  return Mul(target, Sub(log_target, log_x, loc), loc);
}

Tensor CrossEntropy(Tensor logits, Tensor labels, const CrossEntropyOptions& options, Location loc) {
  if (!logits.valid() || (options.label_smoothing == 0 && options.z_loss == 0)) {
    return SoftmaxCrossEntropy(logits, labels, loc);
  }
  if (!HasAxis(logits, -1, "cross_entropy") || !labels.valid()) return Tensor();
  const int64_t last = logits.shape().rank() - 1;
  const Tensor lse = LogSumExp(logits, -1, /*keepdims=*/false, loc);
  const Tensor at_label = WithoutLast(TakeAlong(logits, AsColumn(labels, loc), loc), loc);
  const double e = options.label_smoothing;
  // lse - (1 - e) x[label] - e mean x
  Tensor loss = Sub(lse, Scale(at_label, 1 - e, loc), loc);
  if (e != 0) loss = Sub(loss, Scale(ReduceMean(logits, {last}, /*keepdims=*/false, loc), e, loc), loc);
  if (options.z_loss != 0) loss = Add(loss, Scale(Square(lse, loc), options.z_loss, loc), loc);
  return loss;
}

Tensor MeanCrossEntropy(Tensor logits, Tensor labels, const CrossEntropyOptions& options, int64_t ignored,
                        Location loc) {
  if (!logits.valid() || !labels.valid()) return Tensor();
  const Tensor counts = NotEqual(labels, Number(labels, static_cast<double>(ignored), loc), loc);
  const Tensor known = Where(counts, labels, Number(labels, 0, loc), loc);
  const Tensor rows = Cast(CrossEntropy(logits, known, options, loc), DType::kFloat32, loc);
  if (!rows.valid()) return rows;
  const Tensor total = ReduceSum(Where(counts, rows, Number(rows, 0, loc), loc), {}, /*keepdims=*/false, loc);
  return StepMean(total, ReduceSum(Cast(counts, DType::kFloat32, loc), {}, /*keepdims=*/false, loc), loc);
}

}  // namespace oneflow
