// The law of values that travel as levels: of weights that are gathered, and of what goes from stage to stage. A job
// trains nearly as it does exactly, the nearer the more bits; and fewer bytes move, as many as the plan says.
#include <cmath>

#include "test/laws/layouts_law.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using ::testing::HasSubstr;

class CodeBoxingsTest : public testing::LayoutsLaw {
 protected:
  CodeBoxingsTest() { steps_ = 10; }

  // That variables need on a device however they are split.
  int64_t FewestBytes(std::vector<std::string> layout) {
    layout.push_back("cluster.variable_bytes_per_device=1");
    const std::string error(Run(Gpt(), layout).status().message());
    const size_t at = error.find("variables need ");
    EXPECT_NE(at, std::string::npos) << error;
    return at == std::string::npos ? 0 : std::atoll(error.c_str() + at + sizeof("variables need ") - 1);
  }

  // Levels of `what` move fewer bytes, and the job trains as nearly as their bits say.
  void ExpectNear(const std::vector<std::string>& layout, const char* what) {
    SCOPED_TRACE(absl::StrJoin(layout, " "));
    ASSERT_OK_AND_ASSIGN(const testing::Outcome exact, Run(Gpt(), layout));
    double apart[2] = {};
    for (const int bits : {2, 8}) {
      std::vector<std::string> settings = layout;
      settings.push_back(absl::StrCat("compress={", what, " {bits: ", bits, "}}"));
      ASSERT_OK_AND_ASSIGN(const testing::Outcome coded, Run(Gpt(), settings));
      EXPECT_EQ(coded.stats.bytes_moved, coded.predicted_bytes);
      EXPECT_LT(coded.predicted_bytes, exact.predicted_bytes);
      EXPECT_LT(coded.losses.back(), exact.losses.front());
      for (size_t i = 0; i < coded.losses.size(); ++i) {
        apart[bits / 8] = std::max(apart[bits / 8], std::abs(coded.losses[i] / exact.losses[i] - 1));
      }
    }
    EXPECT_GT(apart[1], 0);
    EXPECT_LT(apart[1], 5e-3);
    EXPECT_GT(apart[0], apart[1]);
  }
};

TEST_F(CodeBoxingsTest, StagesSendLevels) {
  for (const std::vector<std::string>& layout :
       std::vector<std::vector<std::string>>{{"mesh={pp:2}"},
                                             {"mesh={pp:2}", "train.micro_batches=4"},
                                             {"mesh={pp:2 dp:2}", "train.micro_batches=2"},
                                             {"mesh={pp:2 tp:2}", "train.micro_batches=2"},
                                             {"mesh={pp:2}", "precision.compute=BF16"}}) {
    ExpectNear(layout, "stages");
  }
}

TEST_F(CodeBoxingsTest, WeightsAreGatheredAsLevels) {
  for (std::vector<std::string> layout :
       std::vector<std::vector<std::string>>{{"mesh={dp:2}"},
                                             {"mesh={dp:4}", "train.micro_batches=2"},
                                             {"mesh={dp:2 tp:2}"},
                                             {"mesh={dp:2}", "precision.compute=BF16"}}) {
    layout.push_back(absl::StrCat("cluster.variable_bytes_per_device=", FewestBytes(layout)));
    ExpectNear(layout, "weights");
  }
}

TEST_F(CodeBoxingsTest, WhatCannotBeIsRefused) {
  const auto refused = [&](const std::vector<std::string>& settings, const char* why) {
    EXPECT_THAT(Run(Gpt(), settings).status(), testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused({"compress={}"}, "compress: says of nothing that it is compressed: it has no family, weights or stages");
  refused({"compress={family: QUANT}"}, "compress.default: is required");
  refused({"compress={default: 4 stages {}}"}, "compress.default: is of a family, and there is none");
  refused({"compress={weights {} axis: 'nodes'}"}, "compress.axis is 'nodes', which is no axis of the mesh");
  refused({"compress={stages {bits: 9}}"}, "compress.stages.bits");
}

}  // namespace
}  // namespace oneflow
