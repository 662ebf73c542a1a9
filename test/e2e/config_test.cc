// What the command says of configs, and jobs on data of a user's own making.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

TEST(ConfigTest, FieldsAreListedWithRangesDefaultsAndMeanings) {
  const Workspace work;
  const Outcome all = work.Run({"config", "fields"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_THAT(all.out,
              AllOf(HasSubstr("train.micro_batches  int32  [1, 262144]  default 1\n    per step; batch_size"),
                    HasSubstr("precision.compute  Precision.Type  F32, BF16, F16\n"),
                    HasSubstr("model.wide_deep.table_split  string  'rows', 'columns', 'none'  default rows\n")));
  const Outcome one = work.Run({"config", "fields", "mesh"});
  EXPECT_THAT(one.out, AllOf(HasSubstr("mesh.dp  int32  [0, 4096]\n"), Not(HasSubstr("train."))));
  const Outcome wrong = work.Run({"config", "fields", "mesh.sp"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("Mesh has no field 'sp'; it has pp, dp, tp"));
}

TEST(ConfigTest, ModelsAreListedWithTheirFields) {
  const Workspace work;
  const Outcome all = work.Run({"models"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_THAT(all.out,
              AllOf(HasSubstr("gpt  reads text\nDecoder-only transformer"),
                    HasSubstr("model.gpt.vocabulary  int32  [2, 262144]  default 256\n"),
                    HasSubstr("mlp_mixer  reads images or cifar\n"), HasSubstr("mlp  reads images or cifar or csv\n")));
  const Outcome one = work.Run({"models", "convnet"});
  EXPECT_THAT(one.out, AllOf(HasSubstr("model.convnet.hidden"), Not(HasSubstr("gpt"))));
  const Outcome wrong = work.Run({"models", "perceiver"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("there is no model 'perceiver'; there are bert, bilinear, convnet, "));
}

class CsvJobTest : public ::testing::Test {
 protected:
  // Points of a square; which lie in a circle.
  CsvJobTest() {
    std::string rows = "id,x,y,inside\n";
    for (int i = 0; i < 400; ++i) {
      const double x = (i * 37 % 101) / 50.5 - 1, y = (i * 53 % 97) / 48.5 - 1;
      absl::StrAppend(&rows, "\"row ", i, "\",", x, ",", y, ",", std::hypot(x, y) < 0.8 ? 1 : 0, "\n");
    }
    work_.Write("points.csv", rows);
    job_ =
        work_.Write("points.pbtxt", absl::StrCat("model { mlp { widths: [32] classes: 2 } }\n"
                                                 "data { csv { path: '",
                                                 work_.Path("points.csv"),
                                                 "' features: ['x', 'y'] label: 'inside' } }\n"
                                                 "train { steps: 300 batch_size: 40 optimizer { adamw {} } schedule { "
                                                 "learning_rate: 0.01 } }\n"
                                                 "evaluate {}\n"));
  }

  const Workspace work_;
  std::string job_;
};

TEST_F(CsvJobTest, ATableIsLearnedAlikeOnTwoProcesses) {
  const auto one = work_.Metrics(job_, {});
  const auto two = work_.Metrics(job_, OnMesh("dp: 2", 2));
  ASSERT_EQ(one.size(), two.size());
  EXPECT_GT(one.back()["validation_accuracy"].get<double>(), 0.9);
  for (size_t i = 0; i < one.size(); i += 50) {
    EXPECT_NEAR(two[i]["loss"].get<double>() / one[i]["loss"].get<double>(), 1, 1e-4) << i;
  }
}

TEST_F(CsvJobTest, AResumedJobReadsTheSamplesThatFollow) {
  const std::vector<std::string> saves = {"--set", "checkpoint={path: '" + work_.Path("saved") + "'}"};
  const auto whole = work_.Metrics(job_, {"--set", "train.steps=60"});
  work_.Metrics(job_, Join(saves, {"--set", "train.steps=25"}));
  const auto rest = work_.Metrics(job_, Join(saves, {"--set", "train.steps=60", "--resume"}));
  EXPECT_EQ(rest.back()["step"], 60);
  EXPECT_EQ(rest.back()["loss"], whole.back()["loss"]) << "to the bit";
}

TEST_F(CsvJobTest, WhatIsWrongWithTheFileIsSaidBeforeTraining) {
  work_.Write("bad.csv", "x,y,inside\n0.5,0.5,1\n0.5,none,1\n");
  std::string three = "x,y,inside\n0,0,2\n";
  for (int i = 0; i < 20; ++i) three += "0,0,1\n";
  work_.Write("three.csv", three);
  const struct {
    std::string setting, message;
  } kCases[] = {
      {"data.csv.path=" + work_.Path("bad.csv"),
       absl::StrCat("data file '", work_.Path("bad.csv"), "':3:5: column 'y' is 'none', which is no finite number")},
      {"data.csv.features=['x', 'z']", "no column 'z'; there are 'id', 'x', 'y', 'inside'"},
      {"model.mlp.classes=2", ""},
      {"data.csv.label=x", "column 'x' is '-1', which is negative"},
      {"data.csv.path=" + work_.Path("three.csv"), "column 'inside' is '2', which is outside the 2 classes from 0"},
      {"data.csv.label=", "data.csv.label: one of label and target is to be learned"},
      {"data.csv={path: 'x' label: 'y'}", "data.csv.features: names no columns"},
      {"data.csv.validation_fraction=0", "data.csv.validation_path: is missing, and validation_fraction is 0"},
      {"data.csv.separator=x", "data.csv.separator: 'x' is none of"},
      {"model={gpt {layers: 1 width: 8 heads: 2 context: 4}}", "model 'gpt' reads text, so data.text must be given"},
      {"data={text {path: 'x'}}",
       "model 'mlp' reads images or cifar or csv, so data.images or data.cifar or data.csv must be given"},
  };
  for (const auto& c : kCases) {
    const Outcome ended = work_.Run({"compile", job_, "--set", c.setting});
    EXPECT_EQ(ended.exit_code, c.message.empty() ? 0 : 1) << c.setting << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(c.message)) << c.setting;
  }
}

}  // namespace
}  // namespace oneflow::e2e
