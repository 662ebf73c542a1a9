// Data of all phases are looked at when a job is made.
#include "tools/job/data.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/job/config.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

class DataTest : public ::testing::Test {
 protected:
  // An IDX file of bytes.
  std::string Idx(const std::string& name, const std::vector<int>& dims, const std::vector<int>& bytes) const {
    std::string file = {0, 0, 8, static_cast<char>(dims.size())};
    for (const int dim : dims) file += {0, 0, static_cast<char>(dim / 256), static_cast<char>(dim % 256)};
    for (const int byte : bytes) file += static_cast<char>(byte);
    return dir_.Write(name, file);
  }
  absl::StatusOr<Job> Make(const std::string& images, const std::string& labels, const std::string& test_images,
                           const std::string& test_labels, JobKind kind = JobKind::kTrain) const {
    const std::string text = absl::StrCat(
        "model { mlp { widths: [4] classes: 3 } } data { images { train_images: '", images, "' train_labels: '", labels,
        "' test_images: '", test_images, "' test_labels: '", test_labels,
        "' } } train { steps: 1 batch_size: 2 optimizer { sgd {} } schedule { learning_rate: 0.1 } } evaluate {}");
    OF_ASSIGN_OR_RETURN(SourcedConfig config, LoadConfig(dir_.Write("job.pbtxt", text), {}));
    return MakeJob(std::move(config), kind, StandardOps());
  }

  const TestDir dir_;
  const std::vector<int> pixels_ = std::vector<int>(4 * 28 * 28, 7);
  const std::string images_ = Idx("im", {4, 28, 28}, pixels_), labels_ = Idx("lb", {4}, {0, 1, 2, 2});
};

TEST_F(DataTest, LabelsAreClassesOfTheModelInEverySet) {
  ASSERT_OK(Make(images_, labels_, images_, labels_));
  const std::string bad = Idx("bad", {4}, {0, 1, 3, 2});
  const auto refused =
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("bad': label 3 of image 2 is outside the 3 classes"), HasSubstr("data")));
  EXPECT_THAT(Make(images_, bad, images_, labels_).status(), refused);
  EXPECT_THAT(Make(images_, labels_, images_, bad).status(), refused);
}

// Nobody would notice until the job is asked to evaluate.
TEST_F(DataTest, AFileThatNoPhaseReadsIsThereAllTheSame) {
  const std::string text = absl::StrCat("model { mlp { widths: [4] classes: 3 } } data { images { train_images: '",
                                        images_, "' train_labels: '", labels_,
                                        "'\ntest_images: '/none' } } train { steps: 1 batch_size: 2 optimizer { sgd {} "
                                        "} schedule { learning_rate: 0.1 } }");
  ASSERT_OK_AND_ASSIGN(SourcedConfig config, ParseConfig(text, "j"));
  EXPECT_THAT(MakeJob(config, JobKind::kTrain, StandardOps()).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       "j:2: data.images.test_images: '/none': cannot open: No such file or "
                       "directory"));
  ASSERT_OK(ApplyOverride("data.images.test_images=" + images_, config));
  EXPECT_OK(MakeJob(config, JobKind::kTrain, StandardOps()).status());
}

TEST_F(DataTest, ImagesHaveTheModelsSizeInEverySet) {
  const std::string small = Idx("small", {4, 4, 4}, std::vector<int>(64, 1));
  const auto refused =
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("small': its images are 1x4x4, the model reads 1x28x28"));
  EXPECT_THAT(Make(small, labels_, images_, labels_).status(), refused);
  EXPECT_THAT(Make(images_, labels_, small, labels_).status(), refused);
}

TEST_F(DataTest, EachChannelMayHaveAMeanOfItsOwn) {
  const auto make = [&](const std::string& fields) {
    const std::string text =
        absl::StrCat("model { mlp { widths: [4] classes: 3 } } data { images { train_images: '",
                     Idx("of3", {4, 3, 2, 2}, std::vector<int>(48, 51)), "' train_labels: '", labels_,
                     "' channels: 3 height: 2 width: 2\n", fields,
                     " } } train { steps: 1 batch_size: 2 optimizer { sgd {} } schedule { learning_rate: 0.1 } }");
    absl::StatusOr<SourcedConfig> config = ParseConfig(text, "j");
    return config.ok() ? MakeJob(*std::move(config), JobKind::kTrain, StandardOps()).status() : config.status();
  };
  EXPECT_OK(make("mean: 0.3 std: 0.2"));
  EXPECT_OK(make("mean: [0.485, 0.456, 0.406] std: [0.229, 0.224, 0.225]"));
  EXPECT_OK(make("mean: [0.485, 0.456, 0.406]"));
  EXPECT_THAT(make("mean: [0.485, 0.456]").message(),
              HasSubstr("j:2: data.images.mean: has 2 numbers, but images have 3 channels: one for all of them, or one "
                        "for each"));
  EXPECT_THAT(make("std: [0.2, 0.3, 0.4, 0.5]").message(), HasSubstr("data.images.std: has 4 numbers"));
  EXPECT_THAT(make("std: [0.2, -1, 0.4]").message(), HasSubstr("data.images.std: -1 "));
}

TEST_F(DataTest, ASealedJobOpensNothing) {
  EXPECT_OK(Make("/none", "/none", "/none", "/none", JobKind::kSealed));
  EXPECT_FALSE(Make("/none", "/none", "/none", "/none").ok());
  for (const char* field : {"cluster.device_table='/none'", "pipeline={schedule: 'file:/none'}"}) {
    ASSERT_OK_AND_ASSIGN(SourcedConfig config, LoadConfig(dir_.File("job.pbtxt"), {field}));
    EXPECT_THAT(
        MakeJob(std::move(config), JobKind::kSealed, StandardOps()).status(),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("/none', and no file of a job is opened here")));
  }
  ASSERT_OK_AND_ASSIGN(SourcedConfig config,
                       LoadConfig(dir_.File("job.pbtxt"), {"slots='/etc/passwd'", "weights='/none'"}));
  EXPECT_OK(MakeJob(std::move(config), JobKind::kSealed, StandardOps()));
}

}  // namespace
}  // namespace oneflow
