// The law of compressed gradients. What PowerSGD uses depends on the sum of all addends alone, so a job with it trains
// alike under every layout; of a rank that gradients do not exceed, it trains as one without. What top-k uses depends
// on which rank has which samples: it is compared with the authors' algorithm in doubles, rank by rank. What levels and
// drawn elements give is right on average. The bytes that move are those of the codes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "actor/engine.h"
#include "compiler/passes/edges/coding.h"
#include "oneflow_core/functional.h"
#include "test/laws/layouts_law.h"
#include "test/support/list_text.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"
#include "test/support/weight_file.h"

namespace oneflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Values = std::vector<double>;

constexpr int kRows = 8, kInputs = 5, kOutputs = 4, kSteps = 40;
constexpr double kRate = 0.03, kDensity = 0.1;

class CompressedGradientsTest : public testing::LayoutsLaw {
 protected:
  // What variables "w" + suffix hold after kSteps steps of SGD.
  absl::StatusOr<std::vector<Values>> Train(Graph graph, const CompressOptions& compress, int ranks,
                                            const std::vector<std::string>& suffixes) {
    CompileOptions options;
    options.job = "law";
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create({{"dp", ranks}}));
    options.ranks_per_process = ranks;
    options.optimizer.rule = "sgd";
    options.schedule.learning_rate = kRate;
    options.compress = compress;
    Program program;
    program.push_back(std::move(graph));
    OF_ASSIGN_OR_RETURN(pb::Program spelled, testing::CompileSpelledOut(program, options, ops_));
    EngineOptions engine_options;
    engine_options.on_fetch = [](const Fetched&) {};
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(std::move(spelled), engine_options));
    OF_RETURN_IF_ERROR(engine->Run("train", 0, kSteps));
    std::vector<Values> states;
    for (const std::string& suffix : suffixes) {
      OF_RETURN_IF_ERROR(engine->SaveWeights(dir_.File("weights"), suffix));
      OF_ASSIGN_OR_RETURN(const testing::WeightFile file, testing::ReadWeightFile(dir_.File("weights")));
      const testing::WeightFile::Entry& entry = file.tensors.at("w");
      states.emplace_back(entry.as<float>(), entry.as<float>() + entry.type.shape.count());
    }
    return states;
  }

  static std::string With(const std::string& config, const std::string& family, double parameter) {
    return absl::StrCat(config, " compress { family: ", family, " default: ", parameter, " }");
  }
};

TEST_F(CompressedGradientsTest, PowerSgdTrainsAlikeUnderEveryLayout) {
  last_bar_ = 1e-3;  // each step multiplies by factors that the step before has rounded
  const std::vector<std::vector<std::string>> layouts = {
      {"mesh={dp:2}"},
      {"mesh={dp:4}", "train.micro_batches=2"},
      {"mesh={tp:2}"},
      {"mesh={dp:2 tp:2}"},
      {"mesh={pp:2 dp:2}", "train.micro_batches=4"},
      {"mesh={dp:2 tp:2}", "cluster.variable_bytes_per_device=250000"}};
  ExpectSameUnder(With(Gpt(), "POWERSGD", 2), layouts);
  ExpectSameUnder(With(ConvNet(), "POWERSGD", 3), {{"mesh={dp:2}"}, {"mesh={dp:4}"}});
}

// Along other axes the codes of whole gradients are the same. The other axis has as many ranks as the codes'.
TEST_F(CompressedGradientsTest, CodesOfWholeGradientsAreTheSameHoweverOtherAxesAre) {
  // An element may be the last that is sent on one mesh and the first that is not on another, or of another level.
  last_bar_ = 1e-3;
  const std::pair<const char*, double> codecs[] = {{"TOPK", 0.1}, {"QUANT", 4}, {"RANDK", 0.25}, {"PERMK", 0.5}};
  for (const auto& [family, parameter] : codecs) {
    const std::string config = With(Gpt(), family, parameter);
    ASSERT_OK_AND_ASSIGN(const testing::Outcome want, Run(config, {"mesh={dp:2}", "train.micro_batches=2"}));
    for (const char* mesh : {"mesh={dp:2 tp:2}", "mesh={pp:2 dp:2}"}) {
      SCOPED_TRACE(absl::StrCat(family, " ", mesh));
      ASSERT_OK_AND_ASSIGN(const testing::Outcome got, Run(config, {mesh, "train.micro_batches=2"}));
      ExpectSame(got, want);
    }
  }
}

// What is drawn for an element does not depend on the number of ranks, and neither does the sum of what is drawn.
TEST_F(CompressedGradientsTest, DrawnElementsTrainAlikeOnAnyNumberOfRanks) {
  last_bar_ = 1e-3;
  ExpectSameUnder(With(Gpt(), "RANDK", 0.25), {{"mesh={dp:2}"}, {"mesh={dp:4}"}, {"mesh={dp:2 tp:2}"}});
}

// A batch of eight gives gradients of rank eight. The first step has them to rounding. Later ones begin with the factor
// of the step before, whose directions may be nearly those that vanish now; what they miss is in the next step.
TEST_F(CompressedGradientsTest, PowerSgdIsExactWhereGradientsHaveItsRank) {
  ASSERT_OK_AND_ASSIGN(const testing::Outcome exact, Run(Mlp(), {"mesh={dp:2}"}));
  ASSERT_OK_AND_ASSIGN(const testing::Outcome coded, Run(With(Mlp(), "POWERSGD", 16), {"mesh={dp:2}"}));
  ASSERT_OK_AND_ASSIGN(const testing::Outcome narrow, Run(With(Mlp(), "POWERSGD", 1), {"mesh={dp:2}"}));
  const auto apart = [&](const testing::Outcome& outcome, int step) {
    return std::abs(outcome.losses[step] / exact.losses[step] - 1);
  };
  EXPECT_LT(apart(coded, 1), 1e-6);
  EXPECT_GT(apart(narrow, 1), 1e-3);
  for (int step = 0; step < steps_; ++step) {
    EXPECT_LT(apart(coded, step), 1e-3) << step;
    if (step > 0) {
      EXPECT_GT(apart(narrow, step), 10 * apart(coded, step)) << step;
    }
  }
}

CompressOptions HalfOf(CompressOptions options, int ranks) {
  options.participants = std::max(1, ranks / 2);
  return options;
}

// The widths of Mlp(): 784 x 33, 33 x 17 and 17 x 10, and vectors, which travel as they are.
TEST_F(CompressedGradientsTest, TheBytesThatMoveAreThoseOfTheCodes) {
  const std::vector<std::pair<double, double>> matrices = {{784, 33}, {33, 17}, {17, 10}};
  for (const int ranks : {2, 4}) {
    const std::vector<std::string> mesh = {absl::StrCat("mesh={dp:", ranks, "}")};
    ASSERT_OK_AND_ASSIGN(const testing::Outcome exact, Run(Mlp(), mesh));
    const CompressOptions own = {.axis = "dp", .codec = "RANDK", .parameter = 0.1, .own_seeds = true};
    for (const CompressOptions& options : {CompressOptions{"dp", "POWERSGD", 4},
                                           {"dp", "TOPK", 0.05},
                                           {"dp", "QUANT", 3},
                                           {"dp", "RANDK", 0.1},
                                           own,
                                           {"dp", "PERMK", 0.1},
                                           HalfOf(own, ranks),
                                           HalfOf({"dp", "TOPK", 0.05}, ranks),
                                           HalfOf({"dp", "PERMK", 0.1}, ranks)}) {
      SCOPED_TRACE(absl::StrCat(options.codec, options.own_seeds ? " with own seeds" : "", ", ", options.participants,
                                " of ", ranks));
      ASSERT_OK_AND_ASSIGN(const Codec* const codec, FindCodec(options.codec));
      const Coding coding(options, *codec, ranks);
      double saved = 0;
      for (const auto& [n, m] : matrices) saved += std::max(0.0, 4 * n * m - coding.BytesOf(n, m, options));
      std::vector<std::string> settings = mesh;
      if (options.own_seeds) settings.push_back("compress.own_seeds=true");
      settings.push_back(absl::StrCat("compress.participants=", options.participants));
      ASSERT_OK_AND_ASSIGN(const testing::Outcome coded, Run(With(Mlp(), options.codec, options.parameter), settings));
      // A plan has room for codes of all ranks.
      EXPECT_EQ(coded.stats.bytes_moved<coded.predicted_bytes, options.participants> 0);
      // An all-reduce of N bytes moves 2 (ranks - 1) N.
      EXPECT_EQ(static_cast<double>(exact.predicted_bytes - coded.stats.bytes_moved) / steps_, 2 * (ranks - 1) * saved);
    }
  }
}

Values Drawn(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values;
  for (int i = 0; i < count; ++i) values.push_back((static_cast<int>(random() % 257) - 128) / 64.0);
  return values;
}

// Rows x w - y, squared and summed, by top-k with error feedback: each rank has rows of its own.
Values TopKInDoubles(const Values& x, const Values& y, Values w, int ranks) {
  const int size = kInputs * kOutputs, k = std::max(1, static_cast<int>(kDensity * size));
  std::vector<Values> errors(ranks, Values(size, 0));
  for (int step = 0; step < kSteps; ++step) {
    Values sum(size, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      Values& given = errors[rank];
      for (int row = rank * kRows / ranks; row < (rank + 1) * kRows / ranks; ++row) {
        for (int o = 0; o < kOutputs; ++o) {
          double apart = -y[row * kOutputs + o];
          for (int i = 0; i < kInputs; ++i) apart += x[row * kInputs + i] * w[i * kOutputs + o];
          for (int i = 0; i < kInputs; ++i) given[i * kOutputs + o] += 2 * x[row * kInputs + i] * apart / kRows;
        }
      }
      std::vector<int> order(size);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return std::abs(given[a]) > std::abs(given[b]); });
      for (int i = 0; i < k; ++i) {
        sum[order[i]] += given[order[i]];
        given[order[i]] = 0;
      }
    }
    for (int i = 0; i < size; ++i) w[i] -= kRate * sum[i];
  }
  return w;
}

// x w and y, of rows that are split over the ranks; w is trained.
struct Rows {
  Rows(GraphBuilder& b, const Values& x, const Values& of_y, const Values& start) {
    const auto fixed = [&](const std::string& name, int columns, const Values& values) {
      return b.Variable(name, {DType::kFloat32, Shape({kRows, columns})}, testing::ListText(values),
                        {{"dp", Sbp::Split(0)}},
                        /*trainable=*/false);
    };
    const Tensor w = b.Variable("w", {DType::kFloat32, Shape({kInputs, kOutputs})}, testing::ListText(start));
    product = MatMul(fixed("x", kInputs, x), w);
    y = fixed("y", kOutputs, of_y);
  }
  Tensor product, y;
};

// The sum of x w times y, whose gradient is the same in every step.
absl::StatusOr<Graph> LinearIn(const OpRegistry& ops, const Values& x, const Values& y, const Values& start) {
  GraphBuilder b(ops, "train");
  const Rows rows(b, x, y, start);
  b.SetLoss(ReduceSum(Mul(rows.product, rows.y)));
  return b.Finish();
}

TEST_F(CompressedGradientsTest, TopKIsTheAuthorsAlgorithm) {
  const Values x = Drawn(kRows * kInputs, 1), y = Drawn(kRows * kOutputs, 2), start = Drawn(kInputs * kOutputs, 3);
  std::vector<Values> ends;
  for (const int ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    const auto make = [&]() -> absl::StatusOr<Graph> {
      GraphBuilder b(ops_, "train");
      const Rows rows(b, x, y, start);
      const Tensor apart = Sub(rows.product, rows.y);
      b.SetLoss(Scale(ReduceSum(Square(apart)), 1.0 / kRows));
      return b.Finish();
    };
    ASSERT_OK_AND_ASSIGN(Graph graph, make());
    ASSERT_OK_AND_ASSIGN(const auto states, Train(std::move(graph), {"dp", "TOPK", kDensity}, ranks, {""}));
    const Values& got = states[0];
    const Values want = TopKInDoubles(x, y, start, ranks);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-5) << "element " << i;
    ends.push_back(want);
  }
  EXPECT_NE(ends[0], ends[1]);
  EXPECT_NE(ends[1], ends[2]);
}

// The gradient of a sum that is linear in w is the same in every step, so that all that was given is known.
TEST_F(CompressedGradientsTest, WhatWasUsedAndWhatIsLeftIsWhatWasGiven) {
  const Values x = Drawn(kRows * kInputs, 1), y = Drawn(kRows * kOutputs, 2), start = Drawn(kInputs * kOutputs, 3);
  const CompressOptions top_k = {"dp", "TOPK", kDensity};
  for (const int ranks : {1, 2, 4}) {
    for (const CompressOptions& compress : {CompressOptions{"dp", "POWERSGD", 1}, top_k, HalfOf(top_k, ranks)}) {
      SCOPED_TRACE(absl::StrCat(compress.codec, ", ", compress.participants, " of ", ranks));
      ASSERT_OK_AND_ASSIGN(Graph graph, LinearIn(ops_, x, y, start));
      ASSERT_OK_AND_ASSIGN(const auto states, Train(std::move(graph), compress, ranks, {"", "/compress/error"}));
      double most_left = 0;
      for (int i = 0; i < kInputs * kOutputs; ++i) {
        double gradient = 0, left = 0;
        for (int row = 0; row < kRows; ++row) {
          gradient += x[row * kInputs + i / kOutputs] * y[row * kOutputs + i % kOutputs];
        }
        for (int rank = 0; rank < ranks; ++rank) left += states[1][rank * kInputs * kOutputs + i];
        const double used = (start[i] - states[0][i]) / kRate;
        EXPECT_NEAR(used + left, kSteps * gradient, 2e-3) << "element " << i;
        most_left = std::max(most_left, std::abs(left));
      }
      EXPECT_GT(most_left, 0.1) << "nothing is left, so that the error says nothing";
    }
  }
}

// A group has a number of its own, or none.
TEST_F(CompressedGradientsTest, GroupsHaveNumbersOfTheirOwn) {
  const auto bytes = [&](const std::string& groups) -> absl::StatusOr<double> {
    const std::string config = absl::StrCat(Mlp(), " compress { family: POWERSGD default: 4 ", groups, " }");
    OF_ASSIGN_OR_RETURN(const testing::Outcome outcome, Run(config, {"mesh={dp:2}"}));
    return static_cast<double>(outcome.stats.bytes_moved) / steps_;
  };
  // The first matrix is 784 x 33; 2 ranks move twice what an all-reduce is of.
  ASSERT_OK_AND_ASSIGN(const double alike, bytes(""));
  ASSERT_OK_AND_ASSIGN(const double narrow, bytes("groups { match: '*0*' value: 1 }"));
  ASSERT_OK_AND_ASSIGN(const double exact, bytes("groups { match: '*0*' exact: true } groups { match: '*' value: 4 }"));
  EXPECT_EQ(alike - narrow, 2 * 4 * 3 * (784 + 33));
  EXPECT_EQ(exact - alike, 2 * 4 * (784 * 33 - 4 * (784 + 33)));
}

// The same gradient in every step, so that the mean of what was used over the steps comes near it: within five
// deviations, which the bounds of one draw give. Each draw is far from it.
TEST_F(CompressedGradientsTest, CodesWithoutMemoryAreRightOnAverage) {
  const Values x = Drawn(kRows * kInputs, 1), y = Drawn(kRows * kOutputs, 2), start = Drawn(kInputs * kOutputs, 3);
  Values gradient(kInputs * kOutputs);
  for (int i = 0; i < kInputs * kOutputs; ++i) {
    for (int row = 0; row < kRows; ++row) {
      gradient[i] += x[row * kInputs + i / kOutputs] * y[row * kOutputs + i % kOutputs];
    }
  }
  const auto [least, largest] = std::minmax_element(gradient.begin(), gradient.end());
  const CompressOptions own = {.axis = "dp", .codec = "RANDK", .parameter = 0.25, .own_seeds = true};
  const CompressOptions in_turn = {"dp", "PERMK", 0.25};
  for (const int ranks : {1, 2, 4}) {
    for (const CompressOptions& compress : {CompressOptions{"dp", "QUANT", 2, 8},
                                            {"dp", "RANDK", 0.25},
                                            own,
                                            in_turn,
                                            HalfOf(own, ranks),
                                            HalfOf(in_turn, ranks)}) {
      SCOPED_TRACE(absl::StrCat(compress.codec, ", ", compress.participants, " of ", ranks));
      ASSERT_OK_AND_ASSIGN(Graph graph, LinearIn(ops_, x, y, start));
      ASSERT_OK_AND_ASSIGN(const auto states, Train(std::move(graph), compress, ranks, {""}));
      double most_apart = 0;
      for (int i = 0; i < kInputs * kOutputs; ++i) {
        const double mean = (start[i] - states[0][i]) / kRate / kSteps;
        // A level of two bits is a third of the range, of the sum and of each rank's addend, whose ranges are of the
        // order of the sum's; an element that is drawn for four has a deviation of sqrt(3) of itself.
        const double of_level = (ranks + 1) * (*largest - *least) / 3;
        // Those of ranks that draw for themselves are of their addends; half of the ranks send twice as much.
        const double turns = compress.participants == 0 ? 1 : ranks / static_cast<double>(compress.participants);
        const double of_addends = std::sqrt(4 * turns - 1) * (*largest - *least);
        const double deviation = compress.codec == "QUANT" ? of_level
                                 : compress.own_seeds || compress.codec == "PERMK"
                                     ? of_addends
                                     : std::sqrt(3) * std::abs(gradient[i]) + 1e-3;
        EXPECT_NEAR(mean, gradient[i], 5 * deviation / std::sqrt(kSteps)) << "element " << i;
        most_apart = std::max(most_apart, std::abs(mean - gradient[i]));
      }
      EXPECT_GT(most_apart, 1e-3) << "what is drawn is what it is drawn from";
    }
  }
}

// Ranks whose addends are alike send all of their sum in turn, once each element, whatever the draw is.
TEST_F(CompressedGradientsTest, RanksThatAgreeNeedNoLuckInTurn) {
  Values x = Drawn(kRows * kInputs, 1), y = Drawn(kRows * kOutputs, 2);
  const Values start = Drawn(kInputs * kOutputs, 3);
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    const int rows = kRows / ranks;
    for (int i = rows * kInputs; i < kRows * kInputs; ++i) x[i] = x[i % (rows * kInputs)];
    for (int i = rows * kOutputs; i < kRows * kOutputs; ++i) y[i] = y[i % (rows * kOutputs)];
    const CompressOptions in_turn = {"dp", "PERMK", 1.0 / ranks};
    CompressOptions by_luck = {"dp", "RANDK", 1.0 / ranks};
    by_luck.own_seeds = true;
    ASSERT_OK_AND_ASSIGN(Graph graph, LinearIn(ops_, x, y, start));
    ASSERT_OK_AND_ASSIGN(const auto got, Train(graph, in_turn, ranks, {""}));
    ASSERT_OK_AND_ASSIGN(const auto other, Train(graph, by_luck, ranks, {""}));
    double most_apart = 0;
    for (int i = 0; i < kInputs * kOutputs; ++i) {
      double gradient = 0;
      for (int row = 0; row < kRows; ++row) {
        gradient += x[row * kInputs + i / kOutputs] * y[row * kOutputs + i % kOutputs];
      }
      const double want = start[i] - kRate * kSteps * gradient;
      EXPECT_NEAR(got[0][i], want, 1e-4) << "element " << i;
      most_apart = std::max(most_apart, std::abs(other[0][i] - want));
    }
    EXPECT_GT(most_apart, 0.1) << "draws of their own would do as well";
  }
}

TEST_F(CompressedGradientsTest, TheFamiliesOfAConfigAreTheCodecs) {
  std::vector<std::string> families, codecs;
  for (int i = 0; i < pb::Compress::Family_descriptor()->value_count(); ++i) {
    families.push_back(pb::Compress::Family_descriptor()->value(i)->name());
  }
  families.erase(std::find(families.begin(), families.end(), "NONE"));
  for (const Codec& codec : Codecs()) codecs.emplace_back(codec.name);
  EXPECT_THAT(families, ::testing::UnorderedElementsAreArray(codecs));
}

TEST_F(CompressedGradientsTest, WhatCannotBeIsRefused) {
  const struct {
    std::vector<std::string> settings;
    const char* why;
  } cases[] = {
      {{"compress.axis=nodes"}, "compress.axis is 'nodes', which is no axis of the mesh"},
      {{"compress.default=0.5"}, "the rank of POWERSGD is 0.5 but must be a whole number in [1, 1048576]"},
      {{"compress.family=TOPK"}, "the density of TOPK is 4 but must be in [1e-09, 1]"},
      {{"compress.family=PERMK", "compress.default=1e-6"}, "the density of PERMK is 1e-06 but must be in [1e-05, 1]"},
      {{"compress.family=QUANT", "compress.default=9"},
       "the number of bits of QUANT is 9 but must be a whole number in [1, 8]"},
      {{"compress.family=QUANT", "compress.bucket=100"}, "compress.bucket is 100 but must be a multiple of 8"},
      {{"compress.groups={match: 'none*' value: 2}"}, "compress.groups: 'none*' has no matrix: none of "},
      {{"compress.groups={match: '*' value: 2 exact: true}"},
       "compress.groups, '*': is to be exact, and to have a rank of 2; it can be only one of both"},
      {{"compress.groups={match: '*' value: 2.5}"},
       "compress.groups, '*': the rank of POWERSGD is 2.5 but must be a whole number in [1, 1048576]"},
      {{"compress.participants=1"}, "compress.participants: is for TOPK, for PERMK, and for RANDK with own"},
      {{"compress={family: TOPK default: 0.1 participants: 3}", "mesh={dp:2}"},
       "compress.participants is 3 but there are 2 ranks along 'dp'"},
      {{"compress={family: TOPK default: 0.1 participants: 1 adaptive {}}", "mesh={dp:2}"},
       "compress.participants: not with compress.adaptive"},
      {{"precision.compute=F16"}, "gradients of a scaled loss (precision.compute F16) cannot be compressed"},
      {{"mesh={axes { name: 'a' size: 2 role: 'batch' } axes { name: 'b' size: 2 role: 'batch' }}"},
       "compress.axis is 'dp': the mesh has 'a' and 'b' for that; name one of them"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Run(With(Mlp(), "POWERSGD", 4), c.settings).status(),
                testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.why)));
  }
}

}  // namespace
}  // namespace oneflow
