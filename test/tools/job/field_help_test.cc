#include "tools/job/field_help.h"

#include <algorithm>

#include "proto/job.pb.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(FieldHelpTest, AFieldIsToldWithItsTypeRangeDefaultAndComment) {
  ASSERT_OK_AND_ASSIGN(const std::vector<FieldHelp> fields, ConfigFields("train.micro_batches"));
  ASSERT_EQ(fields.size(), 1u);
  EXPECT_EQ(fields[0].type, "int32");
  EXPECT_EQ(fields[0].allowed, "[1, 262144]");
  EXPECT_EQ(fields[0].usual, "1");
  EXPECT_EQ(fields[0].help, "per step; batch_size must be a multiple");
  EXPECT_EQ(FieldsText(fields),
            "train.micro_batches  int32  [1, 262144]  default 1\n"
            "    per step; batch_size must be a multiple\n");
}

TEST(FieldHelpTest, PathsTellWhatIsDoneWithThem) {
  const auto allowed = [](absl::string_view path) { return ConfigFields(path).value()[0].allowed; };
  EXPECT_EQ(allowed("weights"), "file, read");
  EXPECT_EQ(allowed("checkpoint.path"), "folder, written");
  EXPECT_EQ(allowed("name"), "");
}

TEST(FieldHelpTest, OptimizersTellTheRangesOfTheirRules) {
  ASSERT_OK_AND_ASSIGN(const std::vector<FieldHelp> fields, ConfigFields("train.optimizer.adamw.beta2"));
  EXPECT_EQ(fields[0].allowed, "[0, 1)");
  EXPECT_EQ(fields[0].usual, "0.95");
}

TEST(FieldHelpTest, AFieldIsListedWithAllThatAreInIt) {
  ASSERT_OK_AND_ASSIGN(const std::vector<FieldHelp> all, ConfigFields(""));
  ASSERT_OK_AND_ASSIGN(const std::vector<FieldHelp> train, ConfigFields("train"));
  EXPECT_GT(train.size(), 20u);
  for (const FieldHelp& field : train) EXPECT_THAT(field.path, StartsWith("train"));
  const auto of_train = [](const FieldHelp& field) {
    return field.path == "train" || field.path.rfind("train.", 0) == 0;
  };
  EXPECT_EQ(std::count_if(all.begin(), all.end(), of_train), static_cast<int64_t>(train.size()));
}

TEST(FieldHelpTest, AnUnknownFieldIsAnsweredWithOnesSpelledAlike) {
  EXPECT_THAT(ConfigFields("train.stepz"),
              testing::StatusIs(absl::StatusCode::kNotFound, HasSubstr("did you mean 'steps'?")));
  EXPECT_THAT(ConfigFields("train.steps.x"),
              testing::StatusIs(absl::StatusCode::kNotFound, "'train.steps' has no fields"));
}

}  // namespace
}  // namespace oneflow
