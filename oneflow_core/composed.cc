#include "oneflow_core/composed.h"

#include <cmath>
#include <numeric>

#include "oneflow_core/builder.h"

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

}  // namespace oneflow
