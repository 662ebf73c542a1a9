// Functions that are made of others have the values of their formulas.
#include "oneflow_core/composed.h"

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/reference.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

MATCHER(IsClose, "is within 1e-6 of the other") {
  const auto& [mine, other] = arg;
  return std::abs(mine - other) <= 1e-6 * (1 + std::abs(other));
}

class ComposedTest : public ::testing::Test {
 protected:
  // A variable with these values.
  Tensor Given(const RefTensor& values) {
    const std::string name = absl::StrCat("x", given_.size());
    given_[name] = values;
    return b_.Variable(name, {values.dtype, Shape(values.dims)}, "zeros", {}, /*trainable=*/false);
  }
  Tensor Drawn(std::vector<int64_t> dims, double low = -2, double high = 2) {
    RefTensor x = testing::Zeros(std::move(dims));
    std::uniform_real_distribution<double> draw(low, high);
    for (double& value : x.values) value = draw(random_);
    drawn_.push_back(x);
    return Given(x);
  }
  static RefTensor Ids(std::vector<int64_t> dims, std::vector<double> values) {
    return {std::move(dims), std::move(values), DType::kInt32};
  }

  // What the graph computes.
  std::vector<double> Values(const Tensor& of) {
    EXPECT_OK(b_.status());
    std::map<ValueId, RefTensor> values;
    const Graph& graph = b_.graph();
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      std::vector<RefTensor> out;
      if (node.op == "variable") {
        out = {given_.at(node.name)};
      } else if (node.op == "constant") {
        const TensorType& type = graph.value(node.outputs[0]).type;
        out = {testing::Zeros({type.shape.dims().begin(), type.shape.dims().end()}, type.dtype)};
        for (double& value : out[0].values) value = node.attrs.Double("value");
      } else {
        std::vector<RefTensor> in;
        for (const ValueId input : node.inputs) in.push_back(values.at(input));
        auto computed = testing::Reference(node.op, node.attrs, in);
        EXPECT_OK(computed.status());
        if (!computed.ok()) return {};
        out = *computed;
      }
      for (size_t i = 0; i < out.size(); ++i) values[node.outputs[i]] = out[i];
    }
    return values.at(of.id()).values;
  }
  // f of each drawn element of the first tensor, and of the second beside it.
  std::vector<double> Each(const std::function<double(double, double)>& f) const {
    std::vector<double> result;
    for (size_t i = 0; i < drawn_[0].values.size(); ++i) {
      result.push_back(f(drawn_[0].values[i], drawn_.size() > 1 ? drawn_[1].values[i] : 0));
    }
    return result;
  }

  const unsigned seed_ = std::random_device()();
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, absl::StrCat("seed ", seed_)};
  std::mt19937 random_{seed_};
  const OpRegistry ops_ = StandardOps();
  GraphBuilder b_{ops_, "composed"};
  std::map<std::string, RefTensor> given_;
  std::vector<RefTensor> drawn_;
};

TEST_F(ComposedTest, ClipKeepsWithinBounds) {
  const Tensor x = Drawn({3, 5});
  EXPECT_THAT(Values(Clip(x, -0.5, 1)),
              Pointwise(IsClose(), Each([](double x, double) { return std::min(1.0, std::max(-0.5, x)); })));
}

TEST_F(ComposedTest, PowersAreProductsOrExponentials) {
  const Tensor x = Drawn({3, 5}, 0.2, 2);
  for (const double power : {0.0, 1.0, 2.0, 3.0, 7.0, 16.0, 0.5, -1.5, 17.0}) {
    EXPECT_THAT(Values(Pow(x, power)),
                Pointwise(IsClose(), Each([&](double v, double) { return std::pow(v, power); })));
  }
  EXPECT_THAT(Values(Pow(Given({{2}, {-3, 2}}), 3)), Pointwise(IsClose(), {-27.0, 8.0}));
}

TEST_F(ComposedTest, SoftmaxesGoAlongAnyDimension) {
  const Tensor x = Drawn({2, 3, 4}, -30, 30);
  for (const int axis : {0, 1, 2, -1, -3}) {
    const int at = axis < 0 ? axis + 3 : axis;
    const int64_t n = x.shape()[at], inner = at == 2 ? 1 : at == 1 ? 4 : 12;
    const std::vector<double>& values = drawn_[0].values;
    std::vector<double> softmax(values.size()), log_softmax(values.size()), lse;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t line = i / (n * inner) * n * inner + i % inner;
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += std::exp(values[line + j * inner]);
      softmax[i] = std::exp(values[i]) / sum;
      log_softmax[i] = values[i] - std::log(sum);
      if (i / inner % n == 0) lse.push_back(std::log(sum));
    }
    EXPECT_THAT(Values(SoftmaxAlong(x, axis)), Pointwise(IsClose(), softmax)) << axis;
    EXPECT_THAT(Values(LogSoftmax(x, axis)), Pointwise(IsClose(), log_softmax)) << axis;
    EXPECT_THAT(Values(LogSumExp(x, axis)), Pointwise(IsClose(), lse)) << axis;
  }
}

TEST_F(ComposedTest, ColumnsAreFoundAndMarked) {
  const Tensor x = Given({{2, 3}, {1, 5, 5, 0, -1, -2}});
  const Tensor at = ArgMax(x);
  EXPECT_EQ(at.type().ToString(), "i32[2]");
  EXPECT_THAT(Values(at), ::testing::ElementsAre(1, 0));
  EXPECT_THAT(Values(OneHot(at, 3)), ::testing::ElementsAre(0, 1, 0, 1, 0, 0));
}

TEST_F(ComposedTest, PartsAndRepeats) {
  const Tensor x = Given({{2, 3}, {1, 2, 3, 4, 5, 6}});
  const std::vector<Tensor> parts = Split(x, -1, {1, 2});
  EXPECT_THAT(Values(parts[0]), ::testing::ElementsAre(1, 4));
  EXPECT_THAT(Values(parts[1]), ::testing::ElementsAre(2, 3, 5, 6));
  const Tensor stacked = Stack({x, x}, 1);
  EXPECT_EQ(stacked.shape(), Shape({2, 2, 3}));
  EXPECT_THAT(Values(stacked), ::testing::ElementsAre(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
  EXPECT_EQ(Stack({x, x}, -1).shape(), Shape({2, 3, 2}));
  const Tensor tiled = Tile(x, {2, 2});
  EXPECT_EQ(tiled.shape(), Shape({4, 6}));
  EXPECT_THAT(Values(tiled), ::testing::ElementsAre(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6,  //
                                                    1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
}

TEST_F(ComposedTest, LossesOfElements) {
  const Tensor x = Drawn({3, 5}, -30, 30), target = Drawn({3, 5}, 0, 1);
  EXPECT_THAT(Values(SquaredError(x, target)),
              Pointwise(IsClose(), Each([](double v, double t) { return (v - t) * (v - t); })));
  EXPECT_THAT(Values(BinaryCrossEntropy(x, target)), Pointwise(IsClose(), Each([](double v, double t) {
                                                                 return std::log1p(std::exp(-std::abs(v))) +
                                                                        std::max(v, 0.0) - v * t;
                                                               })));
  EXPECT_THAT(Values(HingeLoss(x, target, 2)),
              Pointwise(IsClose(), Each([](double v, double t) { return std::max(0.0, 2 - t * v); })));
  EXPECT_THAT(Values(KlDivergence(x, target)),
              Pointwise(IsClose(), Each([](double v, double t) { return t * (std::log(t) - v); })));
  EXPECT_THAT(Values(KlDivergence(Given({{1}, {-3}}), Given({{1}, {0}}))), ::testing::ElementsAre(0));
}

TEST_F(ComposedTest, CrossEntropySmoothsLabelsAndKeepsLogitsSmall) {
  const Tensor logits = Drawn({2, 3, 4}, -5, 5);
  const std::vector<double> labels = {3, 0, 1, 2, 2, 0};
  const Tensor given = Given(Ids({2, 3}, labels));
  const double e = 0.1, z = 1e-2;
  std::vector<double> want;
  for (size_t row = 0; row < labels.size(); ++row) {
    const double* const x = drawn_[0].values.data() + 4 * row;
    double sum = 0, mean = 0;
    for (int i = 0; i < 4; ++i) sum += std::exp(x[i]), mean += x[i] / 4;
    const double lse = std::log(sum);
    want.push_back((1 - e) * (lse - x[static_cast<int>(labels[row])]) + e * (lse - mean) + z * lse * lse);
  }
  EXPECT_THAT(Values(CrossEntropy(logits, given, {.label_smoothing = e, .z_loss = z})), Pointwise(IsClose(), want));
  const Tensor plain = CrossEntropy(logits, given, {});
  EXPECT_EQ(b_.graph().node(b_.graph().value(plain.id()).producer).op, "softmax_cross_entropy");
}

TEST_F(ComposedTest, RefusesWhatDoesNotFit) {
  Split(Given({{2, 3}, {1, 2, 3, 4, 5, 6}}), 1, {1, 1});
  EXPECT_THAT(b_.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("split: parts of 2 in all are not dimension 1 of f32[2,3]")));
}

TEST_F(ComposedTest, RefusesDimensionsThatAreNot) {
  SoftmaxAlong(Given({{2, 3}, {1, 2, 3, 4, 5, 6}}), 2);
  EXPECT_THAT(b_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("softmax: there is no dimension 2 of f32[2,3]")));
}

TEST_F(ComposedTest, RefusesRepeatsThatAreNotOnesForEachDimension) {
  Tile(Given({{2}, {1, 2}}), {2, 2});
  EXPECT_THAT(b_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tile: 2 numbers of repeats")));
}

}  // namespace
}  // namespace oneflow
