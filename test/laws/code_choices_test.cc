// The law of codes that are chosen while a job trains. Where there is one candidate, nothing changes, to the bit. What
// is chosen is what the errors of the gradients say, worked out by hand; and the bytes that move are of what is chosen.
#include "compiler/code_choices.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "oneflow_core/code_choice.h"
#include "test/laws/layouts_law.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kMatricesOfMlp[] = {"fc0/weight", "fc1/weight", "head/weight"};

class CodeChoicesTest : public testing::LayoutsLaw {
 protected:
  CodeChoicesTest() { steps_ = 12; }

  static std::string With(const std::string& config, const std::string& compress) {
    return absl::StrCat(config, " compress { ", compress, " }");
  }
};

TEST_F(CodeChoicesTest, OneCandidateTrainsAsNoChoiceDoes) {
  for (const char* family : {"family: POWERSGD default: 3", "family: TOPK default: 0.05", "family: QUANT default: 4"}) {
    for (const char* mesh : {"mesh={dp:2}", "mesh={dp:4}", "mesh={dp:2 tp:2}", "mesh={pp:2 dp:2}"}) {
      SCOPED_TRACE(absl::StrCat(family, " ", mesh));
      const std::vector<std::string> layout = {mesh, "train.micro_batches=2"};
      ASSERT_OK_AND_ASSIGN(const testing::Outcome fixed, Run(With(Gpt(), family), layout));
      ASSERT_OK_AND_ASSIGN(
          const testing::Outcome chosen,
          Run(With(Gpt(), absl::StrCat(family, " adaptive { every: 5 window: 2 low: 1 high: 1 }")), layout));
      EXPECT_EQ(chosen.losses, fixed.losses);
      ASSERT_FALSE(chosen.choices.empty());
      for (const auto& [name, counts] : chosen.choices) EXPECT_EQ(counts.size(), 2) << name;
    }
  }
}

// With the gradient of the first step, of which the job without codes gives a file.
TEST_F(CodeChoicesTest, TheChoiceIsWhatTheErrorsOfTheGradientSay) {
  steps_ = 1;
  ASSERT_OK(Run(Mlp(), {"mesh={dp:2}", "save_gradients=" + dir_.File("gradients")}).status());
  ASSERT_OK_AND_ASSIGN(const testing::WeightFile gradients, testing::ReadWeightFile(dir_.File("gradients")));
  ASSERT_OK_AND_ASSIGN(const Codec* const codec, FindCodec("TOPK"));
  const struct {
    const char* fields;
    bool squared, relative, accordion;
  } kCases[] = {{"budget: 'squared'", true, false, false},
                {"budget: 'plain'", false, false, false},
                {"budget: 'squared' relative: true", true, true, false},
                {"budget: 'plain' relative: true", false, true, false},
                {"accordion: 0.5", true, false, true}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.fields);
    const CompressOptions options = {
        .axis = "dp", .codec = "TOPK", .parameter = 0.05, .choice = ChoiceOptions{0.1, 10}};
    const Coding coding(options, *codec, 2);
    std::vector<CodedTensor> tensors;
    std::vector<CodeCounts> counts;
    for (const char* name : kMatricesOfMlp) {
      const testing::WeightFile::Entry& entry = gradients.tensors.at(name);
      std::vector<double> squares(entry.as<float>(), entry.as<float>() + entry.type.shape.count());
      for (double& x : squares) x *= x;
      std::sort(squares.begin(), squares.end());
      counts.push_back(coding.CountsOf(name, entry.type.shape));
      CodedTensor& tensor = tensors.emplace_back();
      // There was no norm before the first choice.
      tensor.usual = c.accordion ? static_cast<int>(counts.back().counts.size()) - 1 : counts.back().usual;
      const double size = c.relative ? std::accumulate(squares.begin(), squares.end(), 0.0) : 1;
      for (size_t i = 0; i < counts.back().counts.size(); ++i) {
        double error = 0;
        for (size_t at = 0; at + counts.back().counts[i] < squares.size(); ++at) error += squares[at];
        error /= size;
        tensor.candidates.push_back({c.squared ? error : std::sqrt(error), counts.back().bytes[i]});
      }
    }
    const std::vector<int> want = ChooseCodes(tensors, 1);
    ASSERT_OK_AND_ASSIGN(
        const testing::Outcome got,
        Run(With(Mlp(), absl::StrCat("family: TOPK default: 0.05 adaptive { every: 1 window: 1 ", c.fields, " }")),
            {"mesh={dp:2}"}));
    bool changes = false;
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_THAT(got.choices.at(kMatricesOfMlp[i]), ElementsAre(counts[i].counts[want[i]])) << kMatricesOfMlp[i];
      changes |= want[i] != counts[i].usual;
    }
    EXPECT_TRUE(changes) << "a choice that is the usual one says nothing";
  }
}

// Norms that hardly change leave room for the smallest codes only, which keep their own errors. At first nobody knows.
TEST_F(CodeChoicesTest, AccordionTakesTheSmallestCodesWhileGradientsAreCalm) {
  steps_ = 3;
  for (const char* family : {"TOPK default: 0.05", "POWERSGD default: 4", "QUANT default: 4"}) {
    SCOPED_TRACE(family);
    const auto choices = [&](const char* accordion) {
      const std::string compress =
          absl::StrCat("family: ", family, " adaptive { every: 1 window: 1 accordion: ", accordion, " }");
      return Run(With(Mlp(), compress), {"mesh={dp:2}"});
    };
    ASSERT_OK_AND_ASSIGN(const testing::Outcome calm, choices("1000"));
    ASSERT_OK_AND_ASSIGN(const testing::Outcome restless, choices("1e-9"));
    ASSERT_EQ(calm.choices.size(), 3u);
    for (const auto& [name, counts] : calm.choices) {
      ASSERT_EQ(counts.size(), 3u);
      EXPECT_EQ(counts[0], restless.choices.at(name)[0]) << name;
      EXPECT_LT(counts[1], counts[0]) << name;
      EXPECT_EQ(counts[2], counts[1]) << name;
      EXPECT_GT(restless.choices.at(name)[2], counts[2]) << name;
    }
  }
}

// Steps behind the second choice, before the window of the third.
TEST_F(CodeChoicesTest, TheBytesThatMoveAreThoseOfTheChoice) {
  for (const int ranks : {2, 4}) {
    const std::string mesh = absl::StrCat("mesh={dp:", ranks, "}");
    ASSERT_OK_AND_ASSIGN(const testing::Outcome exact, Run(Gpt(), {mesh}));
    ASSERT_OK_AND_ASSIGN(const testing::WeightFile weights, testing::ReadWeightFile(dir_.File("initial")));
    const double exact_step = static_cast<double>(exact.predicted_bytes) / steps_;
    for (const auto& [family, parameter] :
         {std::pair<std::string, double>{"POWERSGD", 4}, {"TOPK", 0.05}, {"QUANT", 4}}) {
      SCOPED_TRACE(absl::StrCat(family, " on ", ranks));
      const std::string config =
          With(Gpt(), absl::StrCat("family: ", family, " default: ", parameter, " adaptive { every: 6 window: 2 }"));
      steps_ = 13;
      ASSERT_OK_AND_ASSIGN(const testing::Outcome less, Run(config, {mesh}));
      steps_ = 16;
      ASSERT_OK_AND_ASSIGN(const testing::Outcome more, Run(config, {mesh}));
      ASSERT_OK_AND_ASSIGN(const Codec* const codec, FindCodec(family));
      const CompressOptions options = {.axis = "dp", .codec = family, .parameter = parameter};
      double saved = 0;
      int changed = 0;
      for (const auto& [name, counts] : less.choices) {
        const Shape& shape = weights.tensors.at(name).type.shape;
        const double n = static_cast<double>(shape[0]), m = static_cast<double>(shape.count()) / n,
                     count = counts.at(1);
        changed += static_cast<int64_t>(count) != codec->count(n, m, options);
        CompressOptions chosen = options;
        chosen.parameter = family == "TOPK" ? (count + 0.5) / (n * m) : count;
        saved += 4 * n * m - codec->bytes(n, m, ranks, chosen);
      }
      EXPECT_GT(changed, 2) << "of " << less.choices.size();
      EXPECT_EQ(static_cast<double>(more.stats.bytes_moved - less.stats.bytes_moved) / 3,
                exact_step - 2 * (ranks - 1) * saved);
    }
  }
}

TEST_F(CodeChoicesTest, WhatCannotBeIsRefused) {
  const auto refused = [&](const std::string& compress, const std::vector<std::string>& overrides, const char* why) {
    EXPECT_THAT(Run(With(Mlp(), compress), overrides).status(),
                testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  const std::string adaptive = "family: POWERSGD default: 4 adaptive { every: 5 window: 2 }";
  refused("family: RANDK default: 0.1 adaptive {}", {"mesh={dp:2}"},
          "compress.adaptive: a density of RANDK cannot be chosen");
  refused(adaptive, {"mesh={dp:2}", "compress.adaptive.window=6"},
          "compress.adaptive.window: 6 steps are more than the 5 of `every`");
  refused(adaptive, {"mesh={dp:2}", "compress.groups={match: '*' exact: true}"},
          "compress.adaptive: no matrix travels as a code, so there is none to choose");
  refused(adaptive, {"mesh={dp:2}", "compress.adaptive.high=0.5"}, "compress.adaptive.high: is 0.5");
  refused(adaptive, {"mesh={dp:2 tp:2}", "sync={axis: 'tp' co2 {}}"}, "compress.adaptive: not with sync");
}

}  // namespace
}  // namespace oneflow
