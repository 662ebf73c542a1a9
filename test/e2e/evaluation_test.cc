// An evaluation is over each sample of the validation set once, whatever its batches and meshes are.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

struct Result {
  double loss = 0, accuracy = 0;
};

class EvaluationTest : public ::testing::Test {
 protected:
  std::vector<std::string> Arguments(int batch_size, int batches, const std::string& mesh) const {
    std::vector<std::string> arguments = {"--set", "train.steps=3", "--set", absl::StrCat("mesh={", mesh, "}")};
    const std::string test = absl::StrCat("data.images.test_images=", work_.Path("images"));
    const std::string labels = absl::StrCat("data.images.test_labels=", work_.Path("labels"));
    const std::string evaluate =
        absl::StrCat("evaluate={every: 2 batch_size: ", batch_size, " batches: ", batches, "}");
    for (const std::string& set : {test, labels, evaluate}) arguments.insert(arguments.end(), {"--set", set});
    return arguments;
  }
  // After the last step.
  Result Evaluate(int batch_size, int batches, const std::string& mesh) const {
    const auto lines = work_.Metrics(work_.ConvNetJob(), Arguments(batch_size, batches, mesh));
    if (lines.empty()) return {};
    return {lines.back().value("validation_loss", NAN), lines.back().value("validation_accuracy", NAN)};
  }

  const Workspace work_;
};

TEST_F(EvaluationTest, EachSampleCountsOnceWhateverTheBatchesAre) {
  const Result whole = Evaluate(/*batch_size=*/1, /*batches=*/0, "dp: 1");
  ASSERT_TRUE(std::isfinite(whole.loss));
  const struct {
    int batch_size, batches;
    const char* mesh;
  } kCases[] = {{7, 0, "dp: 2"}, {9, 1000, "dp: 1"}, {1000, 0, "dp: 2 tp: 2"}, {1000, 1, "dp: 1"}, {63, 0, "dp: 3"}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(absl::StrCat(c.batch_size, " samples in ", c.batches, " batches on ", c.mesh));
    const Result result = Evaluate(c.batch_size, c.batches, c.mesh);
    EXPECT_NEAR(result.loss, whole.loss, 1e-5 * whole.loss);
    EXPECT_NEAR(result.accuracy, whole.accuracy, 1e-6);
  }
}

TEST_F(EvaluationTest, ALastBatchThatIsSmallerHasAPlanOfItsOwn) {
  const Outcome run = work_.Run(Join({"run", work_.ConvNetJob()}, Arguments(7, 0, "dp: 2")));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  const Outcome plan = work_.Run(Join({"plan", "show", work_.ConvNetJob()}, Arguments(7, 0, "dp: 2")));
  EXPECT_THAT(plan.out, HasSubstr("plan 'evaluate_rest'"));
}

}  // namespace
}  // namespace oneflow::e2e
