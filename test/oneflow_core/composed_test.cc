// Functions that are made of others have the values of their formulas.
#include "oneflow_core/composed.h"

#include <algorithm>
#include <cmath>

#include "test/oneflow_core/formula_test.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

using ComposedTest = testing::FormulaTest;
using testing::IsClose;

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
  EXPECT_THAT(Values(at), ElementsAre(1, 0));
  EXPECT_THAT(Values(OneHot(at, 3)), ElementsAre(0, 1, 0, 1, 0, 0));
}

TEST_F(ComposedTest, PartsAndRepeats) {
  const Tensor x = Given({{2, 3}, {1, 2, 3, 4, 5, 6}});
  const std::vector<Tensor> parts = Split(x, -1, {1, 2});
  EXPECT_THAT(Values(parts[0]), ElementsAre(1, 4));
  EXPECT_THAT(Values(parts[1]), ElementsAre(2, 3, 5, 6));
  const Tensor stacked = Stack({x, x}, 1);
  EXPECT_EQ(stacked.shape(), Shape({2, 2, 3}));
  EXPECT_THAT(Values(stacked), ElementsAre(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
  EXPECT_EQ(Stack({x, x}, -1).shape(), Shape({2, 3, 2}));
  const Tensor tiled = Tile(x, {2, 2});
  EXPECT_EQ(tiled.shape(), Shape({4, 6}));
  EXPECT_THAT(Values(tiled), ElementsAre(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6,  //
                                         1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
}

TEST_F(ComposedTest, RowsAreSorted) {
  const Tensor x = Given({{2, 4}, {3, 1, 2, 1, -1, 0, -2, 5}});
  const Sorted up = Sort(x), down = Sort(x, /*descending=*/true);
  EXPECT_THAT(Values(up.values), ElementsAre(1, 1, 2, 3, -2, -1, 0, 5));
  EXPECT_THAT(Values(up.indices), ElementsAre(1, 3, 2, 0, 2, 0, 1, 3));
  EXPECT_THAT(Values(down.values), ElementsAre(3, 2, 1, 1, 5, 0, -1, -2));
  EXPECT_THAT(Values(down.indices), ElementsAre(0, 2, 1, 3, 3, 1, 0, 2));
}

TEST_F(ComposedTest, MarginsMirrorOrRepeatWhatIsThere) {
  const Tensor x = Given({{1, 4}, {1, 2, 3, 4}});
  EXPECT_THAT(Values(PadReflect(x, {0, 3}, {0, 2})), ElementsAre(4, 3, 2, 1, 2, 3, 4, 3, 2));
  EXPECT_THAT(Values(PadEdge(x, {1, 2}, {0, 1})), ElementsAre(1, 1, 1, 2, 3, 4, 4, 1, 1, 1, 2, 3, 4, 4));
  EXPECT_THAT(Values(PadReflect(Given({{2, 3}, {1, 2, 3, 4, 5, 6}}), {1, 0}, {0, 1})),
              ElementsAre(4, 5, 6, 5, 1, 2, 3, 2, 4, 5, 6, 5));
}

TEST_F(ComposedTest, RefusesToMirrorMoreThanThereIs) {
  PadReflect(Given({{3}, {1, 2, 3}}), {3}, {0});
  EXPECT_THAT(b_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pad_reflect: [3] before and [0] after f32[3]")));
}

TEST_F(ComposedTest, GroupsOfChannelsAreNormalisedApart) {
  const Tensor x = Drawn({2, 4, 3});
  const Tensor gamma = Given({{4}, {1, 2, -1, 0.5}}), beta = Given({{4}, {0, 1, 2, 3}});
  const std::vector<double>& values = drawn_[0].values;
  for (const int64_t groups : {1, 2, 4}) {
    const size_t size = values.size() / 2 / groups;
    std::vector<double> want;
    for (size_t i = 0; i < values.size(); ++i) {
      double mean = 0, var = 0;
      for (size_t j = 0; j < size; ++j) mean += values[i / size * size + j] / size;
      for (size_t j = 0; j < size; ++j) var += std::pow(values[i / size * size + j] - mean, 2) / size;
      const size_t c = i / 3 % 4;
      want.push_back((values[i] - mean) / std::sqrt(var + 1e-3) * given_["x1"].values[c] + given_["x2"].values[c]);
    }
    EXPECT_THAT(Values(GroupNorm(x, gamma, beta, groups, 1e-3)), Pointwise(IsClose(), want)) << groups;
  }
}

TEST_F(ComposedTest, RefusesGroupsThatDoNotDivideTheChannels) {
  const Tensor x = Drawn({2, 4, 3}), of_channels = Drawn({4});
  GroupNorm(x, of_channels, of_channels, 3);
  EXPECT_THAT(b_.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("group_norm: 3 groups of the channels of f32[2,4,3]")));
}

// As torch.nn.functional.interpolate has it.
TEST_F(ComposedTest, ImagesAreResizedByTheNearestFour) {
  const Tensor x = Given({{1, 1, 2, 3}, {0, 1, 2, 4, 5, 9}});
  EXPECT_THAT(Values(ResizeBilinear(x, 2, 3)), Pointwise(IsClose(), {0., 1., 2., 4., 5., 9.}));
  EXPECT_THAT(Values(ResizeBilinear(x, 4, 3)),
              Pointwise(IsClose(), {0., 1., 2., 1., 2., 3.75, 3., 4., 7.25, 4., 5., 9.}));
  EXPECT_THAT(Values(ResizeBilinear(x, 1, 1)), Pointwise(IsClose(), {3.}));
  EXPECT_THAT(Values(ResizeBilinear(x, 3, 5, /*align_corners=*/true)),
              Pointwise(IsClose(), {0., .5, 1., 1.5, 2., 2., 2.5, 3., 4.25, 5.5, 4., 4.5, 5., 7., 9.}));
}

TEST_F(ComposedTest, ScoredAttentionIsAttention) {
  for (const AttentionHeads& heads : {AttentionHeads{.heads = 4}, AttentionHeads{.heads = 4, .causal = true},
                                      AttentionHeads{.heads = 4, .kv_heads = 2, .causal = true, .window = 2},
                                      AttentionHeads{.heads = 2, .kv_heads = 1, .scale = 0.3, .soft_cap = 0.5}}) {
    const int64_t kv_columns = 8 / heads.heads * (heads.kv_heads > 0 ? heads.kv_heads : heads.heads);
    const Tensor q = Drawn({2, 5, 8}), k = Drawn({2, 5, kv_columns}), v = Drawn({2, 5, kv_columns});
    const Tensor documents = Given(Ids({2, 5}, {0, 0, 3, 3, 3, 4, 4, 4, 4, 1}));
    const std::vector<double> want = Values(ScoredAttention(q, k, v, heads, {.documents = documents}));
    const ScoreOptions kept = {.documents = documents, .added = Given({{1}, {0}})};
    EXPECT_THAT(Values(ScoredAttention(q, k, v, heads, kept)), Pointwise(IsClose(), want)) << heads.heads;
    EXPECT_THAT(Values(ScoredAttention(q, k, v, heads, {})), Pointwise(IsClose(), Values(Attention(q, k, v, heads))));
  }
}

// Packed documents are as if each were alone.
TEST_F(ComposedTest, TokensSeeTheirOwnDocumentAlone) {
  const AttentionHeads heads = {.heads = 2, .causal = true};
  const Tensor q = Drawn({1, 5, 4}), k = Drawn({1, 5, 4}), v = Drawn({1, 5, 4});
  const Tensor packed = ScoredAttention(q, k, v, heads, {.documents = Given(Ids({1, 5}, {0, 0, 0, 7, 7}))});
  std::vector<double> apart = Values(Attention(Slice(q, 1, 0, 3), Slice(k, 1, 0, 3), Slice(v, 1, 0, 3), heads));
  const std::vector<double> second = Values(Attention(Slice(q, 1, 3, 2), Slice(k, 1, 3, 2), Slice(v, 1, 3, 2), heads));
  apart.insert(apart.end(), second.begin(), second.end());
  EXPECT_THAT(Values(packed), Pointwise(IsClose(), apart));
}

TEST_F(ComposedTest, ScoresAreCappedAndAddedTo) {
  const Tensor q = Drawn({1, 2, 1}, 5, 9), k = Drawn({1, 2, 1}, 5, 9), v = Given({{1, 2, 1}, {1, 0}});
  const std::vector<double> added = {0.5, -1, 0, 2};
  const Tensor out = ScoredAttention(q, k, v, {.heads = 1, .soft_cap = 3}, {.added = Given({{2, 2}, added})});
  std::vector<double> want;
  for (int row = 0; row < 2; ++row) {
    double e[2];
    for (int column = 0; column < 2; ++column) {
      const double score = drawn_[0].values[row] * drawn_[1].values[column];
      e[column] = std::exp(3 * std::tanh(score / 3) + added[2 * row + column]);
    }
    want.push_back(e[0] / (e[0] + e[1]));
  }
  EXPECT_THAT(Values(out), Pointwise(IsClose(), want));
}

TEST_F(ComposedTest, RefusesDocumentsOfOtherTokens) {
  const Tensor x = Drawn({1, 5, 4});
  ScoredAttention(x, x, x, {.heads = 2}, {.documents = Given(Ids({1, 4}, {0, 0, 0, 1}))});
  EXPECT_THAT(b_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the documents are i32[1,4]")));
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
  EXPECT_THAT(Values(KlDivergence(Given({{1}, {-3}}), Given({{1}, {0}}))), ElementsAre(0));
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

TEST_F(ComposedTest, IgnoredLabelsDoNotCount) {
  const Tensor logits = Drawn({4, 3}, -5, 5);
  const std::vector<double> labels = {2, -100, 0, -100};
  double sum = 0;
  for (const size_t row : {0, 2}) {
    const double* const x = drawn_[0].values.data() + 3 * row;
    sum += std::log(std::exp(x[0]) + std::exp(x[1]) + std::exp(x[2])) - x[static_cast<int>(labels[row])];
  }
  EXPECT_THAT(Values(MeanCrossEntropy(logits, Given(Ids({4}, labels)))), Pointwise(IsClose(), {sum / 2}));
  EXPECT_THAT(Values(MeanCrossEntropy(logits, Given(Ids({4}, {7, 7, 7, 7})), {}, 7)), ElementsAre(0));
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
