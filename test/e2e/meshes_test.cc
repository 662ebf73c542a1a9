// Evaluation and generation on meshes of their own, in real processes: what users read is what they read without.
#include <cmath>
#include <filesystem>

#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

class MeshesTest : public ::testing::Test {
 protected:
  struct Read {
    std::vector<double> losses, evaluations;
    std::string text;  // that was generated
  };

  Read Run(const std::vector<std::string>& settings) {
    std::vector<std::string> arguments = {"run", job_, "--metrics", work_.Path("metrics")};
    for (const std::string& one : settings) arguments = Join(arguments, {"--set", one});
    std::filesystem::remove(work_.Path("metrics"));
    const Outcome ended = work_.Run(arguments);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    Read read;
    std::istringstream stream(ReadFile(work_.Path("metrics")));
    for (std::string line; std::getline(stream, line);) {
      const nlohmann::json values = nlohmann::json::parse(line);
      read.losses.push_back(values.at("loss"));
      if (values.contains("validation_loss")) read.evaluations.push_back(values["validation_loss"]);
    }
    const size_t generated = ended.out.find("generated:");
    EXPECT_NE(generated, std::string::npos) << ended.out;
    if (generated != std::string::npos) read.text = ended.out.substr(generated);
    return read;
  }

  // `evaluate` and `generate`: what is said of their meshes.
  Read RunWith(const std::string& evaluate, const std::string& generate, const std::vector<std::string>& more) {
    std::vector<std::string> settings = {absl::StrCat("evaluate={every: 10 batches: 3 ", evaluate, "}"),
                                         absl::StrCat("generate={tokens: 8 prompt: 'the ri' ", generate, "}"),
                                         "train.schedule={learning_rate: 0.01}"};
    return Run(Join(settings, more));
  }

  const Workspace work_;
  const std::string job_ = work_.GptJob();
};

TEST_F(MeshesTest, AMeshOfItsOwnChangesNothingThatIsRead) {
  const std::vector<std::string> training = {"mesh={dp: 2 tp: 2}", "cluster.processes=2"};
  const Read home = RunWith("", "", training);
  ASSERT_THAT(home.losses, SizeIs(20));
  ASSERT_THAT(home.evaluations, SizeIs(2));
  const struct {
    const char *evaluate, *generate;
    std::vector<std::string> more;
  } kCases[] = {
      {"mesh {tp: 4}", "mesh {tp: 3}", {}},
      {"mesh {tp: 2} ranks {first: 2}", "mesh {}", {}},  // generation leaves the second process without work
      // More processes than training has work for, and one without any work.
      {"mesh {dp: 4} ranks {hosts: [3, 1]}",
       "mesh {dp: 2} ranks {hosts: 3}",
       {"cluster={hosts {count: 4 devices: 2}}", "mesh={tp: 2 dp: 2}"}},
      // Hosts in another order; copies are compared.
      {"mesh {dp: 4} ranks {hosts: [2, 1]}",
       "mesh {dp: 2} ranks {hosts: 2}",
       {"cluster={hosts {count: 3 devices: 2}}", "mesh={tp: 2 dp: 2}", "check_replicas=true"}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(absl::StrCat("evaluate ", c.evaluate, ", generate ", c.generate));
    const Read away = RunWith(c.evaluate, c.generate, Join(training, c.more));
    ASSERT_THAT(away.losses, SizeIs(20));
    for (size_t i = 0; i < 20; ++i) EXPECT_NEAR(away.losses[i] / home.losses[i], 1, 1e-6) << "step " << i + 1;
    ASSERT_THAT(away.evaluations, SizeIs(2));
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(away.evaluations[i] / home.evaluations[i], 1, 1e-6) << i;
    EXPECT_EQ(away.text, home.text);
  }
}

TEST_F(MeshesTest, APlanSaysOnWhichMeshItLies) {
  const Outcome shown =
      work_.Run({"plan", "show", job_, "--set", "mesh={dp: 2}", "--set", "evaluate={mesh {tp: 2} ranks {first: 1}}"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("3 ranks"));
  EXPECT_THAT(shown.out, HasSubstr("mesh [dp=2]{0,1}\n"));
  EXPECT_THAT(shown.out, HasSubstr("mesh [tp=2]{1,2}\n"));
  const Outcome explained = work_.Run(
      {"plan", "explain", job_, "--set", "mesh={dp: 2}", "--set", "evaluate={mesh {tp: 2} ranks {first: 1}}"});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("3 ranks in 1 process"));
  EXPECT_THAT(explained.out, HasSubstr("  on a mesh of its own, [tp=2]{1,2}\n"));
}

}  // namespace
}  // namespace oneflow::e2e
