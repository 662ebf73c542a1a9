#include "tools/study/checkpoint/checkpoint_tools.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_split.h"
#include "actor/checkpoint/manifest.h"
#include "actor/checkpoint/safetensors.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

// A folder of checkpoints that were made of weight files.
class CheckpointToolsTest : public ::testing::Test {
 protected:
  // A matrix "w" that counts from `first`, and a vector "b".
  std::string WeightFile(const std::string& name, float first) const {
    const std::string path = dir_.File(name);
    SafetensorsWriter writer =
        *SafetensorsWriter::Create(path, {{"w", {DType::kFloat32, {2, 3}}}, {"b", {DType::kFloat32, {2}}}});
    float w[6], b[2] = {5, 5};
    for (int i = 0; i < 6; ++i) w[i] = first + static_cast<float>(i);
    EXPECT_OK(writer.Write("w", 0, w, sizeof(w)));
    EXPECT_OK(writer.Write("b", 0, b, sizeof(b)));
    EXPECT_OK(writer.Close());
    return path;
  }
  void Make(int64_t step, float first) const {
    ASSERT_OK(ConvertCheckpoint(WeightFile("weights", first), job(), /*all=*/false, step));
  }
  std::string job() const { return dir_.File("job"); }

  TestDir dir_;
};

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST_F(CheckpointToolsTest, AWeightFileBecomesACheckpointAndAWeightFileAgain) {
  Make(3, 1);
  EXPECT_OK(ConvertCheckpoint(job(), dir_.File("again"), /*all=*/false, 0));
  EXPECT_EQ(Bytes(dir_.File("again")), Bytes(dir_.File("weights")));
  EXPECT_THAT(ConvertCheckpoint(job(), dir_.File("again"), false, 0),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("again' exists already")));
  EXPECT_THAT(ConvertCheckpoint(dir_.File("again"), job(), false, 3),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("step-000000003' exists already")));
  EXPECT_THAT(ConvertCheckpoint(dir_.File("none"), job(), false, 4),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("No such file")));
}

TEST_F(CheckpointToolsTest, AWeightFileOfOtherTypesThanAJobsBecomesNoCheckpoint) {
  const std::string json = R"({"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})";
  const std::string length(1, static_cast<char>(json.size()));
  const std::string path = dir_.Write("f64", length + std::string(7, '\0') + json + std::string(8, 'x'));
  EXPECT_THAT(
      ConvertCheckpoint(path, job(), false, 1),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tensor 'w' is f64[1], of a type that no tensor")));
}

TEST_F(CheckpointToolsTest, TheListSaysWhatThereIsAndWhatIsDamaged) {
  Make(3, 1);
  Make(12, 1);
  std::filesystem::resize_file(CheckpointFolder(job(), 3) + "/manifest", 20);
  ASSERT_OK_AND_ASSIGN(const std::string text, ListText(job()));
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[1], StartsWith("step-000000003       damaged: '"));
  EXPECT_THAT(lines[2], StartsWith("step-000000012              12  20"));
  EXPECT_THAT(lines[2], HasSubstr(" MB        2       1  weights           a safetensors file"));
  ASSERT_OK_AND_ASSIGN(const std::string one, ListText(CheckpointFolder(job(), 12)));
  EXPECT_THAT(one, HasSubstr(lines[2]));
  EXPECT_THAT(ListText(dir_.File("none")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such folder")));
  std::ofstream(dir_.File("weights.safetensors")) << "x";
  EXPECT_THAT(
      ListText(dir_.File("weights.safetensors")),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is a file, and a checkpoint is a folder; `oneflow "
                                                             "checkpoint convert` makes one")));
}

TEST_F(CheckpointToolsTest, VerifyingReadsEveryByteAndGoesOnAfterDamage) {
  Make(3, 1);
  Make(12, 1);
  std::vector<std::string> lines;
  const auto keep = [&lines](const std::string& line) { lines.push_back(line); };
  EXPECT_OK(VerifyCheckpoints(job(), keep));
  EXPECT_THAT(lines, ElementsAre(HasSubstr("step-000000003: good, 2 tensors"), HasSubstr("step-000000012: good")));

  const std::string piece = CheckpointFolder(job(), 3) + "/" + PieceName(0);
  std::string bytes = Bytes(piece);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(piece, std::ios::binary) << bytes;
  lines.clear();
  EXPECT_THAT(VerifyCheckpoints(job(), keep), StatusIs(absl::StatusCode::kDataLoss, "1 of 2 checkpoints is damaged"));
  EXPECT_THAT(lines, ElementsAre(HasSubstr("step-000000003: damaged: tensor 'w' [0:2,0:3]: '"), HasSubstr("good")));
}

TEST_F(CheckpointToolsTest, DifferencesAreNamedAndMeasured) {
  Make(3, 1);
  Make(12, 1.5);
  ASSERT_OK_AND_ASSIGN(const std::string same, DiffText(job(), CheckpointFolder(job(), 12)));
  EXPECT_EQ(same, "") << "the folder of a job stands for its last";
  ASSERT_OK_AND_ASSIGN(const std::string differs, DiffText(CheckpointFolder(job(), 3), job()));
  EXPECT_EQ(differs, "w: 6 of 6 elements differ, by 0.5 at most\n");

  const std::string other = dir_.File("other");
  SafetensorsWriter writer =
      *SafetensorsWriter::Create(other, {{"w", {DType::kFloat32, {3, 2}}}, {"x", {DType::kFloat32, {2}}}});
  ASSERT_OK(writer.Close());
  ASSERT_OK(ConvertCheckpoint(other, dir_.File("others"), false, 0));
  ASSERT_OK_AND_ASSIGN(const std::string apart, DiffText(job(), dir_.File("others")));
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(apart, '\n', absl::SkipEmpty())),
              ElementsAre(StartsWith("b: only in '"), "w: f32[2,3] and f32[3,2]", StartsWith("x: only in '")));
}

}  // namespace
}  // namespace oneflow
