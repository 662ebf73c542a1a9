// `oneflow generate`: a text continued by saved weights.
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

class GenerateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Outcome trained = work_.Run({"run", job_, "--set", "train.steps=60", "--set",
                                       "train.schedule={learning_rate: 0.01}", "--save-weights", weights_});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }
  std::string Generate(const std::vector<std::string>& more) {
    const Outcome ended =
        work_.Run(Join({"generate", job_, "--weights", weights_, "--prompt", "the ri", "--tokens", "10"}, more));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    return ended.out;
  }

  const Workspace work_;
  const std::string job_ = work_.GptJob();
  const std::string weights_ = work_.Path("weights");
};

TEST_F(GenerateTest, TheLikeliestTextIsTheSameAgainAndOnAnyLayout) {
  const std::string text = Generate({"--temperature", "0"});
  EXPECT_THAT(text, StartsWith("generated:\nthe ri"));
  EXPECT_EQ(text.size(), std::string("generated:\nthe ri").size() + 10 + 1) << text;
  EXPECT_EQ(Generate({"--temperature", "0"}), text);
  EXPECT_EQ(Generate(Join({"--temperature", "0"}, OnMesh("dp: 2 tp: 2", 2))), text);
  EXPECT_EQ(Generate(Join({"--temperature", "0", "--set", "generate.mesh={tp: 3}", "--set", "generate.ranks.first=1"},
                          OnMesh("dp: 2 tp: 2", 2))),
            text);
}

TEST_F(GenerateTest, ChanceComesFromTheSeed) {
  const std::string text = Generate({"--temperature", "2"});
  EXPECT_EQ(Generate({"--temperature", "2"}), text);
  EXPECT_NE(Generate({"--temperature", "2", "--set", "seed=2"}), text);
}

TEST_F(GenerateTest, ARunWithAGenerateSectionEndsWithText) {
  const Outcome ended = work_.Run({"run", job_, "--set", "generate={tokens: 5 prompt: 'sea'}"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("generated:\nsea"));
}

}  // namespace
}  // namespace oneflow::e2e
