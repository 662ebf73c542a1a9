// Random models under random annotations, each of which is legal by itself.
#pragma once

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "oneflow_core/composed.h"
#include "oneflow_core/einsum.h"

namespace oneflow::testing {

inline int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// A model that a seed stands for. Its annotations name mesh axes "dp" and "tp"; those that a mesh lacks say nothing.
class RandomModel {
 public:
  // Graphs of one seed differ in name only, in whether they are trained, and in whether wishes are written down.
  RandomModel(const OpRegistry& ops, int seed, const std::string& name = "train", bool annotated = true)
      : builder_(ops, name), annotated_(annotated), random_(seed) {}

  absl::StatusOr<Graph> Make(bool trained = true) {
    const int64_t batch = 2 + Draw(8);
    Tensor x = Start(batch);
    const int length = 2 + Draw(7);
    for (int i = 0; i < length; ++i) {
      earlier_.push_back(x);
      x = Annotated(Layer(x), 35);
    }
    const Tensor loss = Loss(x);
    if (trained) builder_.SetLoss(loss);
    Fetch(loss, "loss");
    return builder_.Finish();
  }

  // The rest of a job of that many steps.
  std::string Config(int steps) {
    const char* const optimizers[] = {"adamw { epsilon: 1e-3 }", "adamw { epsilon: 1e-3 weight_decay: 0.1 }", "sgd {}",
                                      "sgd { momentum: 0.9 }"};
    return absl::StrCat("name: 'random' train { steps: ", steps, " batch_size: 1 optimizer { ", optimizers[Draw(4)],
                        Draw(2) == 0 ? " clip_norm: 1" : "", " } schedule { learning_rate: 1e-2 } }");
  }
  int Draw(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

 private:
  bool Chance(int percent) { return Draw(100) < percent; }

  // A wish for some of the axes. What a variable is kept as is no addend.
  SbpHint Wishes(const TensorType& type, bool may_be_partial) {
    SbpHint hint;
    for (const char* axis : {"dp", "tp"}) {
      if (Chance(40)) continue;
      const int kind = Draw(type.shape.rank() + 2);
      if (kind < type.shape.rank()) {
        hint.push_back({axis, Sbp::Split(kind)});
      } else if (kind == type.shape.rank() || !may_be_partial) {
        hint.push_back({axis, Sbp::Broadcast()});
      } else {
        hint.push_back({axis, Sbp::Partial()});
      }
    }
    return annotated_ ? hint : SbpHint{};
  }
  Tensor Annotated(const Tensor& x, int percent) {
    if (!x.valid() || !Chance(percent)) return x;
    return x.To(Wishes(x.type(), /*may_be_partial=*/x.type().dtype != DType::kBool));  // which are no addends
  }
  // A new weight or, now and then, one of that shape that is there already.
  Tensor Weight(const std::vector<int64_t>& shape, const char* init = "normal(0.3)") {
    for (const Tensor& weight : weights_) {
      if (weight.shape() == Shape(shape) && Chance(25)) return weight;
    }
    const TensorType type{DType::kFloat32, Shape(shape)};
    weights_.push_back(builder_.Variable(absl::StrCat("v", weights_.size()), type, init,
                                         Chance(60) ? Wishes(type, /*may_be_partial=*/false) : SbpHint{}));
    return Annotated(weights_.back(), 20);
  }

  Tensor Start(int64_t batch) {
    const int64_t fields = 1 + Draw(4), numbers = 2 * (1 + Draw(6)), vocabulary = 5 + Draw(20);
    const std::vector<Tensor> data = builder_.Op("read_data", {},
                                                 {{"dataset", std::string("clicks")},
                                                  {"batch", batch},
                                                  {"fields", fields},
                                                  {"numbers", numbers},
                                                  {"vocabulary", vocabulary},
                                                  {"samples", int64_t{1000}},
                                                  {"split", std::string("train")}});
    labels_ = Annotated(data[2], 30);
    if (Chance(50)) return Embedding(Weight({vocabulary, 1 + Draw(9)}), Annotated(data[0], 50));
    const Tensor x = Annotated(data[1], 70);
    return Chance(30) ? Convolved(Reshape(x, {batch, 1 + Draw(2), numbers / 2, -1})) : x;
  }

  Tensor Convolved(const Tensor& x) {
    if (!x.valid()) return x;
    const int64_t channels = x.shape()[1], dilation = 1 + Draw(2);
    if (Chance(30)) {
      return ConvTranspose2d(x, Weight({channels, 1 + Draw(3), 1 + Draw(2), 1}), {.stride = 1 + Draw(2)}, 0);
    }
    const int64_t groups = Chance(40) ? channels : 1;
    const Tensor weight = Weight({groups * (1 + Draw(3)), channels / groups, 1 + Draw(2), 1});
    return Conv2d(x, weight, {.padding = 1, .dilation = dilation, .groups = groups});
  }

  Tensor Layer(const Tensor& x) {
    if (!x.valid()) return x;
    const int rank = x.shape().rank();
    const int64_t last = x.shape()[rank - 1];
    switch (Draw(22)) {
      case 0:
      case 1:
      case 2:
        return rank < 2 ? Tanh(x) : MatMul(x, Annotated(Weight({last, 1 + Draw(9)}), 20));
      case 3: {
        const int axis = Draw(rank);
        return BiasAdd(x, Weight({x.shape()[axis]}), axis);
      }
      case 4:
        return LayerNorm(x, Weight({last}, "ones"), Weight({last}, "zeros"), 1e-2);
      case 5:
        return RmsNorm(x, Weight({last}, "ones"), 1e-2);
      case 6:
        return AnyFunction(x);
      case 7:
        return Chance(50) ? Tanh(x) : Relu(x);
      case 8:
        return Mul(x, Weight({last}));
      case 9:
        return Reduced(x);
      case 10:
        return Reshaped(x);
      case 11:
        return Transposed(x);
      case 12:
        return Residual(x);
      case 13: {
        const int axis = Draw(rank);
        const int64_t size = 1 + Draw(static_cast<int>(x.shape()[axis]));
        return Slice(x, axis, Draw(static_cast<int>(x.shape()[axis] - size + 1)), size);
      }
      case 14:
        return Concat({x, Annotated(Tanh(x), 50)}, Draw(rank));
      case 15:
        return rank == 3 ? Mixed(x) : Softmax(x);
      case 16:
        return Chance(50) ? Flip(x, Draw(rank)) : Chosen(x);
      case 17:
        return rank == 4 ? OfImages(x) : Sigmoid(x);
      case 18:
        return rank == 3 ? OfSequences(x) : SoftmaxAlong(x, Draw(rank));
      case 19:
        return Composed(x);
      case 20:
        return Padded(x);
      default:
        return Chance(50) ? ReduceMax(x, {Draw(rank)}, true) : Noisy(x);
    }
  }

  // With numbers that are drawn in every step.
  Tensor Noisy(const Tensor& x) {
    switch (Draw(3)) {
      case 0:
        return x + 0.1 * NormalLike(x);
      case 1:
        return x * UniformLike(x);
      default:
        return Dropout(x, 0.2);
    }
  }

  // Plain, or of documents, capped, dropped or added to.
  Tensor Mixed(const Tensor& x) {
    const int64_t heads = x.shape()[2] % 2 == 0 ? 2 : 1;
    AttentionHeads options = {.heads = heads, .causal = Chance(50)};
    if (options.causal && Chance(30)) options.window = 1 + Draw(3);
    if (Chance(30)) options.soft_cap = 1.5;
    if (Chance(30)) options.dropout = 0.2;
    ScoreOptions scores;
    if (Chance(40)) {
      std::vector<double> documents;
      for (int64_t i = 0; i < x.shape()[0] * x.shape()[1]; ++i) documents.push_back(Draw(2));
      scores.documents = Annotated(Constant(builder_, {DType::kInt32, {x.shape()[0], x.shape()[1]}}, documents), 40);
    }
    if (Chance(20)) scores.added = Weight({x.shape()[1], x.shape()[1]});
    if (Chance(70)) return ScoredAttention(x, Annotated(x, 30), x, options, scores);
    // lse too has a gradient.
    const Attended mixed = AttentionWithLse(x, Annotated(x, 30), x, options, {scores.documents, scores.documents});
    if (!mixed.out.valid()) return Tensor();
    const Tensor lse = Transpose(ReduceMean(mixed.lse, {1}, /*keepdims=*/true), {0, 2, 1});
    return Add(mixed.out, lse);
  }

  // The losses of the alignments of x [b,t,c] with labels that fit, beside x.
  Tensor Aligned(const Tensor& x) {
    const int64_t b = x.shape()[0], steps = x.shape()[1], most = steps / 2;
    const int classes = static_cast<int>(x.shape()[2]);
    if (classes < 2 || steps < 2) return Tanh(x);
    std::vector<double> labels, lengths, counts;
    for (int64_t i = 0; i < b; ++i) {
      lengths.push_back(static_cast<double>(steps - Draw(2)));
      const int64_t fit = static_cast<int64_t>(lengths.back()) / 2;  // equal ones too, with a blank between each two
      counts.push_back(Draw(static_cast<int>(fit + 1)));
      for (int64_t j = 0; j < most; ++j) labels.push_back(1 + Draw(classes - 1));
    }
    const auto numbers = [&](const std::vector<int64_t>& shape, const std::vector<double>& values) {
      return Annotated(Constant(builder_, {DType::kInt32, Shape(shape)}, values), 30);
    };
    const Tensor loss = CtcLoss(LogSoftmax(x), numbers({b, most}, labels), numbers({b}, lengths), numbers({b}, counts));
    return Add(Tanh(x), Reshape(Annotated(loss, 30), {b, 1, 1}));
  }

  // x [b,t,c] through a recurrence, or aligned.
  Tensor OfSequences(const Tensor& x) {
    if (Chance(25)) return Aligned(x);
    const int64_t b = x.shape()[0], units = 1 + Draw(4), gates = Chance(50) ? 4 : 3;
    const Tensor arrived = Annotated(MatMul(x, Weight({x.shape()[2], gates * units})), 30);
    const Tensor w = Weight({units, gates * units}), bias = Weight({gates * units}, "zeros");
    const Tensor h0 = Constant(builder_, {DType::kFloat32, {b, units}}, 0.5);
    if (gates == 3) return Gru(arrived, w, bias, h0);
    const LstmStates states = Lstm(arrived, w, bias, h0, Annotated(h0, 30));
    return Chance(50) ? states.y : Add(states.y, states.cells);
  }

  Tensor OfImages(const Tensor& x) {
    switch (Draw(4)) {
      case 0:
        return AdaptiveAvgPool2d(x, 1 + Draw(3), 1 + Draw(3));
      case 1:
        return x.shape()[2] >= 2 && x.shape()[3] >= 2 ? MaxPool2d(x, 2, 1 + Draw(2)) : Tanh(x);
      case 2:
        return ResizeBilinear(x, 1 + Draw(4), 1 + Draw(4), Chance(50));
      default:
        return AvgPool2d(x, 2, 1 + Draw(2), 1);
    }
  }

  // Functions that are made of several ops.
  Tensor Composed(const Tensor& x) {
    const int rank = x.shape().rank();
    switch (Draw(8)) {
      case 0:
        return LogSumExp(x, Draw(rank), true);
      case 1:
        return LogSoftmax(x, Draw(rank));
      case 2:
        return Sort(x, Chance(50)).values;
      case 3: {
        if (rank < 2) return Clip(x, -0.5, 0.5);
        const int64_t channels = x.shape()[1], groups = channels % 2 == 0 ? 2 : 1;
        return GroupNorm(x, Weight({channels}, "ones"), Weight({channels}, "zeros"), Chance(50) ? groups : channels,
                         1e-2);
      }
      case 4:
        return rank == 2 ? Einsum("bi,bj,ik->bjk", {x, Tanh(x), Weight({x.shape()[1], 1 + Draw(3)})}) : Square(Tanh(x));
      case 5:
        return rank < 4 ? Stack({x, Annotated(Tanh(x), 40)}, Draw(rank + 1)) : Exp(Tanh(x));
      case 6: {
        std::vector<int64_t> repeats(rank, 1);
        repeats[Draw(rank)] = 2;
        return Tile(x, repeats);
      }
      default:
        return Pow(AddScalar(Square(Tanh(x)), 0.5), Chance(50) ? 2 : 1.5);
    }
  }

  // With zeros, mirrored, or with the elements at its ends.
  Tensor Padded(const Tensor& x) {
    std::vector<int64_t> before, after;
    for (const int64_t size : x.shape().dims()) {
      before.push_back(size > 1 ? Draw(2) : 0);
      after.push_back(size > 1 ? Draw(2) : 0);
    }
    return Chance(30) ? Pad(x, before, after) : Chance(50) ? PadReflect(x, before, after) : PadEdge(x, before, after);
  }

  // One of two by a condition that no rounding changes: of positions along a dimension, and of constants.
  Tensor Chosen(const Tensor& x) {
    const int axis = Draw(x.shape().rank());
    std::vector<int64_t> column(x.shape().rank() - axis, 1);
    column[0] = x.shape()[axis];
    const Tensor at = Reshape(Arange(builder_, DType::kInt32, column[0], Draw(3), 1 + Draw(2)), column);
    std::vector<double> values;
    for (int64_t i = 0; i < x.shape()[x.shape().rank() - 1]; ++i) values.push_back(Draw(3));
    const Tensor drawn = Constant(builder_, {DType::kInt32, {static_cast<int64_t>(values.size())}}, values);
    const Tensor condition = Annotated(Chance(50) ? at < 3 : at > drawn, 30);
    const Tensor other = Chance(50) ? Annotated(Tanh(x), 30) : StopGradient(Annotated(x, 30));
    return Where(Chance(50) ? condition : (!condition) | (drawn <= 1), x, other);
  }

  // A function of one tensor, of what it may be given. Not sign, which a rounding changes.
  Tensor AnyFunction(const Tensor& x) {
    struct Function {
      Tensor (*call)(Tensor, Location);
      double low, high;
    };
#define OF_FUNCTION(Name, op, f, dx, precision, low, high) {Name, low, high},
    constexpr Function kFunctions[] = {ONEFLOW_UNARY_FUNCTIONS(OF_FUNCTION)};
#undef OF_FUNCTION
    const Function& drawn = kFunctions[Draw(static_cast<int>(std::size(kFunctions)))];
    const auto& [call, low, high] = drawn.call == Sign ? kFunctions[0] : drawn;
    return call(AddScalar(Scale(Tanh(x), (high - low) / 2), (high + low) / 2), Location::current());
  }

  Tensor Reduced(const Tensor& x) {
    const int64_t axis = Draw(x.shape().rank());
    const bool keep = x.shape().rank() < 2 || Chance(50);
    switch (Draw(3)) {
      case 0:
        return ReduceSum(x, {axis}, keep);
      case 1:
        return ReduceMax(x, {axis}, keep);
      default:
        return ReduceMean(x, {axis}, keep);
    }
  }

  // Two dimensions as one, or one as two.
  Tensor Reshaped(const Tensor& x) {
    std::vector<int64_t> sizes = x.shape().dims();
    const int at = Draw(static_cast<int>(sizes.size()));
    if (at > 0 && Chance(50)) {
      sizes[at - 1] *= sizes[at];
      sizes.erase(sizes.begin() + at);
    } else if (sizes.size() < 4) {
      const int64_t factor = sizes[at] % 2 == 0 ? 2 : sizes[at] % 3 == 0 ? 3 : 1;
      sizes[at] /= factor;
      sizes.insert(sizes.begin() + at + Draw(2), factor);
    }
    return Reshape(x, sizes);
  }

  Tensor Transposed(const Tensor& x) {
    std::vector<int64_t> order;
    for (int d = 0; d < x.shape().rank(); ++d) order.push_back(d);
    std::shuffle(order.begin(), order.end(), random_);
    return Transpose(x, order);
  }

  Tensor Residual(const Tensor& x) {
    for (const Tensor& other : earlier_) {
      if (other.shape() == x.shape() && other.id() != x.id()) return Chance(50) ? Add(x, other) : Maximum(x, other);
    }
    return Square(Tanh(x));
  }

  Tensor Loss(const Tensor& x) {
    if (!x.valid()) return x;
    const bool by_row = x.shape().rank() == 2 && x.shape()[0] == labels_.shape()[0] && x.shape()[1] >= 2;
    // The first layer may have been the only one with a weight, or none may have had one.
    if (by_row && Chance(70)) return ReduceMean(SoftmaxCrossEntropy(Mul(x, Weight({x.shape()[1]})), labels_));
    return ReduceMean(Square(AddScalar(Mul(x, Weight({x.shape()[x.shape().rank() - 1]})), -1)));
  }

  GraphBuilder builder_;
  const bool annotated_;
  std::mt19937 random_;
  std::vector<Tensor> earlier_, weights_;
  Tensor labels_;
};

}  // namespace oneflow::testing
