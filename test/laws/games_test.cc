// The law of games: rules that take gradients at other points than the weights step as their authors' formulas say, in
// doubles, on one device and where workers have their shares on ranks of their own; and codes of differences to an
// anchor, or to a shift, lead to the same solution, by as many bytes as the plan says.
#include <cmath>
#include <functional>
#include <random>

#include "absl/strings/str_format.h"
#include "actor/data/game.h"
#include "compiler/points.h"
#include "gmock/gmock.h"
#include "test/laws/layouts_law.h"
#include "tools/job/points.h"

namespace oneflow {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<double>;

constexpr GameSizes kSizes = {.dimension = 6, .workers = 4, .heterogeneity = 0.5, .condition = 20, .seed = 1};

// x and y one behind the other.
class GameByHand {
 public:
  GameByHand() : game_(MakeGame(kSizes)), d_(kSizes.dimension) {}

  // (df/dx, -df/dy) of the mean over workers.
  Values Operator(const Values& z) const {
    Values f(2 * d_, 0);
    for (int64_t m = 0; m < kSizes.workers; ++m) {
      for (int64_t i = 0; i < d_; ++i) {
        f[i] += game_.of_x[m][i] / kSizes.workers;
        f[d_ + i] -= game_.of_y[m][i] / kSizes.workers;
        for (int64_t j = 0; j < d_; ++j) {
          f[i] += game_.matrices[m][i * d_ + j] * z[d_ + j] / kSizes.workers;
          f[d_ + j] -= game_.matrices[m][i * d_ + j] * z[i] / kSizes.workers;
        }
      }
    }
    for (int64_t i = 0; i < 2 * d_; ++i) f[i] += z[i] / kSizes.condition;
    return f;
  }
  double Distance(const Values& z) const {
    double away = 0, all = 0;
    for (int64_t i = 0; i < 2 * d_; ++i) {
      away += std::pow(z[i] - game_.solution[i], 2);
      all += std::pow(game_.solution[i], 2);
    }
    return away / all;
  }
  Values Zero() const { return Values(2 * d_, 0); }

 private:
  const Game game_;
  const int64_t d_;
};

Values Plus(const Values& a, double scale, const Values& b) {
  Values sum = a;
  for (size_t i = 0; i < a.size(); ++i) sum[i] += scale * b[i];
  return sum;
}

class GamesTest : public testing::LayoutsLaw {
 protected:
  GamesTest() { steps_ = 50; }

  static std::string Job(const std::string& optimizer, double rate) {
    return absl::StrCat(
        "data { game { dimension: 6 heterogeneity: 0.5 condition: 20 } } model { bilinear {} } train { batch_size: 4 "
        "optimizer { ",
        optimizer, " groups { match: 'y' ascent: true } } schedule { learning_rate: ", rate, " } }");
  }

  // The distances at the points where gradients are taken, on one device and on ranks of workers.
  void ExpectDistances(const std::string& optimizer, double rate, const Values& want) {
    for (const char* mesh : {"mesh={}", "mesh={dp: 2}", "mesh={dp: 4}"}) {
      SCOPED_TRACE(absl::StrCat(optimizer, " ", mesh));
      ASSERT_OK_AND_ASSIGN(const testing::Outcome got, Run(Job(optimizer, rate), {mesh}));
      const Values& distances = got.fetched.at("distance");
      ASSERT_EQ(distances.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(distances[i], want[i], 2e-5 * want[i] + 1e-6) << "step " << i;
    }
  }

  const GameByHand game_;
};

TEST_F(GamesTest, TheSolutionIsOne) {
  Values z = game_.Zero();
  for (int i = 0; i < 4000; ++i) z = Plus(z, -0.5, game_.Operator(Plus(z, -0.5, game_.Operator(z))));
  EXPECT_LT(game_.Distance(z), 1e-20);
}

TEST_F(GamesTest, OptimisticStepsAsItsFormula) {
  Values z = game_.Zero(), previous, want;
  for (int i = 0; i < steps_; ++i) {
    want.push_back(game_.Distance(z));
    const Values g = game_.Operator(z);
    const Values change = previous.empty() ? game_.Zero() : Plus(g, -1, previous);
    z = Plus(z, -0.3, Plus(g, 1, change));
    previous = g;
  }
  ExpectDistances("optimistic {}", 0.3, want);
}

TEST_F(GamesTest, ExtragradientStepsAsItsFormula) {
  Values z = game_.Zero(), want;
  for (int i = 0; i < steps_; ++i) {
    const Values half = Plus(z, -0.5, game_.Operator(z));
    want.push_back(game_.Distance(half));
    z = Plus(z, -0.5, game_.Operator(half));
  }
  ExpectDistances("extragradient {}", 0.5, want);
}

TEST_F(GamesTest, MashaStepsAsItsFormula) {
  const double p = 0.2;
  pb::PointRule rule;
  rule.set_anchors(true);
  rule.set_probability(p);
  Values z = game_.Zero(), anchor = z, of_anchor = game_.Operator(z), want;
  int moved = 0;
  for (int i = 0; i < steps_; ++i) {
    Values centre = game_.Zero();
    centre = Plus(Plus(centre, 1 - p, z), p, anchor);
    const Values half = Plus(centre, -0.4, of_anchor);
    want.push_back(game_.Distance(half));
    z = Plus(centre, -0.4, game_.Operator(half));
    if (!MovesAnchor(rule, 1, i)) continue;
    ++moved;
    anchor = z;
    of_anchor = game_.Operator(z);
  }
  EXPECT_GT(moved, 3);
  ExpectDistances("masha { probability: 0.2 }", 0.4, want);
}

// Samples whose inputs one adversary moves; all of them are in every batch.
class RobustRegressionByHand {
 public:
  static constexpr int kSamples = 24, kFeatures = 3;
  static constexpr double kDecay = 0.05, kPenalty = 6;

  RobustRegressionByHand() : x_(kSamples * kFeatures), target_(kSamples) {
    std::mt19937 random(5);
    const auto draw = [&] { return (static_cast<int>(random() % 257) - 128) / 128.0; };
    for (int i = 0; i < kSamples; ++i) {
      for (int j = 0; j < kFeatures; ++j) x_[i * kFeatures + j] = draw();
      target_[i] = 0.5 + x_[i * kFeatures] - 0.75 * x_[i * kFeatures + 1] + draw() / 8;
    }
  }

  std::string Csv() const {
    std::string rows = "a,b,c,target\n";
    for (int i = 0; i < kSamples; ++i) {
      for (int j = 0; j < kFeatures; ++j) absl::StrAppend(&rows, absl::StrFormat("%.9f,", x_[i * kFeatures + j]));
      absl::StrAppend(&rows, absl::StrFormat("%.9f\n", target_[i]));
    }
    return rows;
  }

  // z: weight, shift. The loss there, and (its gradient by the first two, against that by the shift).
  double At(const Values& z, Values& f) const {
    f.assign(2 * kFeatures, 0);
    double loss = 0;
    for (int j = 0; j < kFeatures; ++j) {
      loss += kDecay / 2 * z[j] * z[j] - kPenalty / 2 * z[kFeatures + j] * z[kFeatures + j];
      f[j] = kDecay * z[j];
      f[kFeatures + j] = kPenalty * z[kFeatures + j];
    }
    for (int i = 0; i < kSamples; ++i) {
      double apart = -target_[i];
      for (int j = 0; j < kFeatures; ++j) apart += (x_[i * kFeatures + j] + z[kFeatures + j]) * z[j];
      loss += apart * apart / 2 / kSamples;
      for (int j = 0; j < kFeatures; ++j) {
        f[j] += apart * (x_[i * kFeatures + j] + z[kFeatures + j]) / kSamples;
        f[kFeatures + j] -= apart * z[j] / kSamples;
      }
    }
    return loss;
  }

 private:
  Values x_, target_;
};

TEST_F(GamesTest, RobustRegressionStepsAsItsFormula) {
  const RobustRegressionByHand game;
  Values z(2 * RobustRegressionByHand::kFeatures, 0), want, f;
  for (int i = 0; i < steps_; ++i) {
    game.At(z, f);
    const Values half = Plus(z, -0.1, f);
    want.push_back(game.At(half, f));
    z = Plus(z, -0.1, f);
  }
  EXPECT_GT(std::abs(z[RobustRegressionByHand::kFeatures]), 1e-2) << "nobody moves inputs";
  const std::string job = absl::StrCat(
      "data { csv { path: '", dir_.Write("rows.csv", game.Csv()),
      "' validation_fraction: 0 features: ['a', 'b', 'c'] target: 'target' } } model { robust_regression { decay: ",
      game.kDecay, " penalty: ", game.kPenalty, " } } train { batch_size: ", game.kSamples,
      " optimizer { extragradient {} groups { match: 'shift' ascent: true } } schedule { learning_rate: 0.1 } }");
  for (const char* mesh : {"mesh={}", "mesh={dp: 2}", "mesh={dp: 4}"}) {
    SCOPED_TRACE(mesh);
    ASSERT_OK_AND_ASSIGN(const testing::Outcome got, Run(job, {mesh}));
    ASSERT_EQ(got.losses.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got.losses[i], want[i], 1e-5 * want[i] + 1e-6) << "step " << i;
  }
}

// Of batches that are all of the data a gradient at the anchor is the same in every step.
TEST_F(GamesTest, MashaOfBatchesIsMashaWhereTheyAreWhole) {
  for (const char* compress :
       {"", "compress={family: RANDK default: 0.34 own_seeds: true}", "compress={family: TOPK default: 0.34}"}) {
    SCOPED_TRACE(compress);
    std::vector<std::string> settings = {"mesh={dp: 4}", "data.game.condition=4"};
    if (*compress != '\0') settings.push_back(compress);
    ASSERT_OK_AND_ASSIGN(const testing::Outcome masha, Run(Job("masha { probability: 0.3 }", 0.15), settings));
    ASSERT_OK_AND_ASSIGN(const testing::Outcome same,
                         Run(Job("masha_batches { probability: 0.3 batches: 2 }", 0.15), settings));
    const Values &want = masha.fetched.at("distance"), &got = same.fetched.at("distance");
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4 * want[i] + 1e-6) << "step " << i;
  }
}

// A sixth of the samples in a batch, all six before an anchor moves: it finds the solution, to the rounding of its
// gradients, where steps by the gradients of single batches stay as far as these differ.
TEST_F(GamesTest, MashaOfBatchesFindsTheSolutionByPartsOfTheData) {
  const RobustRegressionByHand game;
  Values solution(2 * RobustRegressionByHand::kFeatures, 0), f;
  for (int i = 0; i < 20000; ++i) {
    game.At(solution, f);
    game.At(Plus(solution, -0.1, f), f);
    solution = Plus(solution, -0.1, f);
  }
  steps_ = 1500;
  const auto distance = [&](const std::string& optimizer, const std::string& compress) -> absl::StatusOr<double> {
    const std::string job = absl::StrCat(
        "data { csv { path: '", dir_.Write("rows.csv", game.Csv()),
        "' validation_fraction: 0 features: ['a', 'b', 'c'] target: 'target' } } model { robust_regression { decay: ",
        game.kDecay, " penalty: ", game.kPenalty, " } } train { batch_size: 4 optimizer { ", optimizer,
        " groups { match: 'shift' ascent: true } } schedule { learning_rate: 0.05 } } save_weights: '",
        dir_.File("ended"), "' ", compress);
    OF_RETURN_IF_ERROR(Run(job, {"mesh={dp: 2}"}).status());
    OF_ASSIGN_OR_RETURN(const testing::WeightFile ended, testing::ReadWeightFile(dir_.File("ended")));
    double away = 0;
    size_t next = 0;
    for (const char* name : {"weight", "shift"}) {
      const testing::WeightFile::Entry& entry = ended.tensors.at(name);
      for (int64_t i = 0; i < entry.type.shape.count(); ++i)
        away += std::pow(entry.as<float>()[i] - solution[next++], 2);
    }
    return std::sqrt(away);
  };
  ASSERT_OK_AND_ASSIGN(const double exact, distance("masha_batches { probability: 0.2 batches: 6 }", ""));
  EXPECT_LT(exact, 1e-4);
  ASSERT_OK_AND_ASSIGN(const double coded, distance("masha_batches { probability: 0.2 batches: 6 }",
                                                    "compress { family: RANDK default: 0.5 own_seeds: true }"));
  EXPECT_LT(coded, 1e-4);
  ASSERT_OK_AND_ASSIGN(const double single, distance("extragradient {}", ""));
  EXPECT_GT(single, 1e-3);
}

// Weight decay is part of the operator, at the point where it is taken.
TEST_F(GamesTest, WeightDecayIsOfThePoint) {
  const double decay = 0.1;
  Values z = game_.Zero(), want;
  const auto at = [&](const Values& x) { return Plus(game_.Operator(x), decay, x); };
  for (int i = 0; i < steps_; ++i) {
    const Values half = Plus(z, -0.5, at(z));
    want.push_back(game_.Distance(half));
    z = Plus(z, -0.5, at(half));
  }
  ExpectDistances("extragradient { weight_decay: 0.1 }", 0.5, want);
}

// Steps of different players in turn around the solution leave it; the rules above do not.
TEST_F(GamesTest, DescentAndAscentAtOnceDiverge) {
  steps_ = 400;
  ASSERT_OK_AND_ASSIGN(const testing::Outcome got,
                       Run(Job("sgd {}", 0.5), {"data.game.condition=1e6", "mesh={dp: 4}"}));
  EXPECT_GT(got.fetched.at("distance").back(), 1);
}

// What travels as codes finds the solution, which codes of the gradients themselves do not.
TEST_F(GamesTest, CodesOfDifferencesFindTheSolution) {
  steps_ = 500;
  const struct {
    const char *optimizer, *compress;
    bool finds;
  } kCases[] = {
      {"masha { probability: 0.3 }", "{family: RANDK default: 0.34 own_seeds: true}", true},
      {"masha { probability: 0.3 }", "{family: RANDK default: 0.34}", true},
      {"masha { probability: 0.3 }", "{family: PERMK default: 0.34}", true},
      {"masha { probability: 0.3 }", "{family: TOPK default: 0.34}", true},
      {"masha { probability: 0.3 }", "{family: RANDK default: 0.34 own_seeds: true participants: 2}", true},
      {"masha { probability: 0.3 }", "{family: PERMK default: 0.34 participants: 3}", true},
      {"masha { probability: 0.3 }", "{family: TOPK default: 0.34 participants: 2}", true},
      {"extragradient {}", "{family: RANDK default: 0.34 own_seeds: true shift_rate: 0.15 participants: 2}", true},
      {"extragradient {}", "{family: RANDK default: 0.34 own_seeds: true shift_rate: 0.3}", true},
      {"extragradient {}", "{family: TOPK default: 0.34 shift_rate: 0.3}", true},
      {"extragradient {}", "{family: RANDK default: 0.34 own_seeds: true}", false},
      {"extragradient {}", "{family: TOPK default: 0.17}", false},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(absl::StrCat(c.optimizer, " ", c.compress));
    ASSERT_OK_AND_ASSIGN(
        const testing::Outcome got,
        Run(Job(c.optimizer, 0.15), {"mesh={dp: 4}", "data.game.condition=4", absl::StrCat("compress=", c.compress)}));
    const double distance = got.fetched.at("distance").back();
    if (c.finds) {
      EXPECT_LT(distance, 1e-6);
    } else {
      EXPECT_GT(distance, 1e-3);
    }
  }
}

TEST_F(GamesTest, WhatCannotBeIsRefused) {
  const std::string masha = "masha { probability: 0.3 }";
  const struct {
    std::string job, setting, error;
  } kCases[] = {
      {Job(masha, 0.1), "compress={family: POWERSGD default: 1 shift_rate: 0.1}", "is for TOPK"},
      {Job(masha, 0.1), "compress={family: TOPK default: 0.1 shift_rate: 0.1}", "the optimizer says already"},
      {Job(masha, 0.1), "compress={family: TOPK default: 0.1 own_seeds: true}", "is for RANDK"},
      {Job(masha, 0.1), "sync={co2 {tau: 2}}", "not with a rule that takes gradients at other points"},
      {Job("sgd {} groups { match: 'x' masha { probability: 0.2 } } groups { match: 'z' }", 0.1), "mesh={}", "'z'"},
      {Job("masha { probability: 0.2 } groups { match: 'x' masha { probability: 0.3 } }", 0.1), "mesh={}",
       "all anchors move by one coin"},
      {Job("masha_batches {} groups { match: 'x' masha {} }", 0.1), "mesh={}", "not beside masha_batches"},
      {Job("masha {} groups { match: 'x' masha_batches {} }", 0.1), "mesh={}", "not beside masha"},
      {Job("masha_batches { batches: 2.5 }", 0.1), "mesh={}", "2.5 is no whole number"},
      {Job("extragradient {}", 0.1), "data.game={dimension: 1024 workers: 17}",
       "a game of dimension 1024 with 17 workers has 17 matrices of 1024 x 1024, but may have at most 16777216"},
      {Job("extragradient {}", 0.1), "train.optimizer.groups={match: 'y' frozen: true ascent: true}", "frozen"},
  };
  for (const auto& c : kCases) {
    const auto got = Run(c.job, {"mesh={dp: 4}", c.setting});
    EXPECT_THAT(std::string(got.status().message()), HasSubstr(c.error)) << c.job << " " << c.setting;
  }
}

TEST_F(GamesTest, CoinsAreOfTheSeedAndTheStep) {
  pb::PointRule rule;
  EXPECT_FALSE(MovesAnchor(rule, 1, 0));
  rule.set_anchors(true);
  rule.set_probability(0.25);
  int heads = 0, same = 0;
  for (int step = 0; step < 4000; ++step) {
    const bool moves = MovesAnchor(rule, 1, step);
    EXPECT_EQ(moves, MovesAnchor(rule, 1, step));
    heads += moves;
    same += moves == MovesAnchor(rule, 2, step);
  }
  EXPECT_NEAR(heads / 4000.0, 0.25, 0.03);
  EXPECT_NEAR(same / 4000.0, 0.625, 0.03);
}

}  // namespace
}  // namespace oneflow
