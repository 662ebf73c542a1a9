#include "tools/study/weights/look.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "actor/checkpoint/safetensors.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/study/checkpoint/checkpoint_tools.h"

namespace oneflow {
namespace {

// A file with that JSON header and these bytes.
std::string StoredFile(const std::string& json, const std::string& bytes) {
  std::string file(8, '\0');
  file[0] = static_cast<char>(json.size());
  return file + json + bytes;
}

class LookTest : public ::testing::Test {
 protected:
  std::string Weights(const std::string& name, std::vector<SafetensorsWriter::Tensor> tensors, float value) const {
    absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(dir_.File(name), tensors);
    EXPECT_OK(writer);
    for (const SafetensorsWriter::Tensor& tensor : tensors) {
      std::vector<float> values(tensor.type.shape.count(), value);
      EXPECT_OK(writer->Write(tensor.name, 0, values.data(), tensor.type.num_bytes()));
    }
    EXPECT_OK(writer->Close());
    return dir_.File(name);
  }
  static std::vector<std::string> Lines(const absl::StatusOr<std::string>& text) {
    EXPECT_OK(text);
    return absl::StrSplit(*text, '\n', absl::SkipEmpty());
  }

  TestDir dir_;
};

TEST_F(LookTest, TheListHasEveryTensorAndTheTotals) {
  const TensorType matrix = {DType::kFloat32, {2, 3}}, scalar = {DType::kFloat32, {}};
  Weights("model.safetensors", {{"h/w", matrix}, {"s", scalar}}, 1);
  const auto expected = ElementsAre("tensor  dtype   shape                      bytes  file",
                                    "h/w     F32     [2,3]                         24  model.safetensors",
                                    "s       F32     []                             4  model.safetensors",
                                    "2 tensors, 7 elements, 28 bytes");
  EXPECT_THAT(Lines(WeightsText(dir_.File("model.safetensors"))), expected);
  EXPECT_THAT(Lines(WeightsText(dir_.File(""))), expected) << "a folder of Hugging Face";
  ASSERT_OK(ConvertCheckpoint(dir_.File("model.safetensors"), dir_.File("job"), false, 3));
  EXPECT_THAT(Lines(WeightsText(dir_.File("job"))),
              ElementsAre(HasSubstr("tensor"), HasSubstr("piece-00000.safetensors"), HasSubstr("s "),
                          "2 tensors, 7 elements, 28 bytes"));
  const std::string narrow =
      dir_.Write("f8", StoredFile(R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", "xy"));
  EXPECT_THAT(Lines(WeightsText(narrow))[1], HasSubstr("F8_E4M3"));
  std::filesystem::create_directory(dir_.File("empty"));
  EXPECT_THAT(WeightsText(dir_.File("empty")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("has neither")));
  EXPECT_THAT(WeightsText(dir_.File("none")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
}

TEST_F(LookTest, DifferencesAreNamedAndMeasured) {
  const TensorType matrix = {DType::kFloat32, {2, 3}}, vector = {DType::kFloat32, {2}};
  const std::string a = Weights("a", {{"both", matrix}, {"cut", matrix}, {"gone", vector}, {"v", vector}}, 1);
  const std::string b = Weights("b", {{"both", matrix}, {"cut", vector}, {"new", vector}, {"v", vector}}, 1);
  EXPECT_THAT(Lines(WeightsDiffText(a, a)), ElementsAre());
  EXPECT_THAT(Lines(WeightsDiffText(a, b)),
              ElementsAre("cut: f32[2,3] and f32[2]", absl::StrCat("gone: only in '", a, "', f32[2]"),
                          absl::StrCat("new: only in '", b, "', f32[2]")));
  const std::string c = Weights("c", {{"both", matrix}, {"cut", matrix}, {"gone", vector}, {"v", vector}}, 1.5);
  EXPECT_THAT(Lines(WeightsDiffText(a, c)), ::testing::Contains("v: 2 of 2 elements differ, by 0.5 at most"));
  ASSERT_OK(ConvertCheckpoint(a, dir_.File("job"), false, 3));
  EXPECT_THAT(Lines(WeightsDiffText(a, dir_.File("job"))), ElementsAre());
}

TEST_F(LookTest, TypesAreComparedByTheirNumbers) {
  const auto file = [&](const std::string& name, const std::string& dtype, const std::string& bytes) {
    return dir_.Write(name, StoredFile(absl::StrCat(R"({"a":{"dtype":")", dtype, R"(","shape":[1],"data_offsets":[0,)",
                                                    bytes.size(), "]}}"),
                                       bytes));
  };
  const std::string f32 = file("f32", "F32", std::string("\0\0\xc0\x3f", 4)),  // 1.5
      f64 = file("f64", "F64", std::string("\0\0\0\0\0\0\xf8\x3f", 8)),        // 1.5
      bf16 = file("bf16", "BF16", std::string("\0\xc0", 2)),                   // -2
      zero = file("zero", "F32", std::string("\0\0\0\0", 4)),
                    minus = file("minus", "F32", std::string("\0\0\0\x80", 4)), f8 = file("f8", "F8_E4M3", "x"),
                    other_f8 = file("f8_2", "F8_E4M3", "y");
  EXPECT_THAT(Lines(WeightsDiffText(f32, f64)), ElementsAre("a: f32[1] and f64[1]"));
  EXPECT_THAT(Lines(WeightsDiffText(f32, bf16)),
              ElementsAre("a: f32[1] and bf16[1]; 1 of 1 elements differ, by 3.5 at most"));
  EXPECT_THAT(Lines(WeightsDiffText(zero, minus)), ElementsAre(HasSubstr("equal, but not their bits")));
  EXPECT_THAT(Lines(WeightsDiffText(f8, other_f8)), ElementsAre("a: their bytes differ"));
  EXPECT_THAT(Lines(WeightsDiffText(f8, f8)), ElementsAre());
}

}  // namespace
}  // namespace oneflow
