#include "actor/checkpoint/weight_files.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

// A folder in which each file has vectors that repeat one number.
class WeightFilesTest : public ::testing::Test {
 protected:
  void Write(const std::string& file, const std::vector<std::string>& names, float value) const {
    std::vector<SafetensorsWriter::Tensor> tensors;
    for (const std::string& name : names) tensors.push_back({name, {DType::kFloat32, {2}}});
    absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(dir_.File(file), tensors);
    ASSERT_OK(writer);
    const float values[] = {value, value};
    for (const std::string& name : names) ASSERT_OK(writer->Write(name, 0, values, sizeof(values)));
    ASSERT_OK(writer->Close());
  }
  void WriteIndex(const std::string& json) const { dir_.Write(kModelIndex, json); }
  absl::StatusOr<WeightFiles> Open() const { return WeightFiles::OpenFolder(dir_.File("")); }

  TestDir dir_;
};

TEST_F(WeightFilesTest, AnIndexJoinsItsFiles) {
  Write("one", {"a", "c"}, 1);
  Write("two", {"b"}, 2);
  WriteIndex(R"({"metadata": {"total_size": 24}, "weight_map": {"a": "one", "b": "two", "c": "one"}})");
  ASSERT_OK_AND_ASSIGN(const WeightFiles files, Open());
  EXPECT_THAT(files.files(), ElementsAre(EndsWith("one"), EndsWith("two")));
  ASSERT_EQ(files.tensors().size(), 3u);
  float value = 0;
  ASSERT_OK(files.Read("b", sizeof(float), sizeof(float), &value));
  EXPECT_EQ(value, 2);
  ASSERT_OK(files.Read("c", 0, sizeof(float), &value));
  EXPECT_EQ(value, 1);
  WriteIndex(absl::StrCat(R"({"weight_map": {"b": "two"}, "metadata": )", std::string(100'000, '['),
                          std::string(100'000, ']'), "}"));
  EXPECT_OK(Open()) << "whatever else it says";
  Write(kModelFile, {"d"}, 3);
  ASSERT_OK_AND_ASSIGN(const WeightFiles single, Open());
  EXPECT_THAT(single.tensors(), ElementsAre(Pair("d", ::testing::_))) << "as transformers reads it";
}

TEST_F(WeightFilesTest, AnIndexThatLies) {
  Write("one", {"a", "c"}, 1);
  Write("two", {"a"}, 2);
  const BadText kCases[] = {
      {"{", "is not a JSON object"},
      {"[]", "is not a JSON object"},
      {"{}", "has no object 'weight_map'"},
      {R"({"weight_map": ["a"]})", "has no object 'weight_map'"},
      {R"({"weight_map": {}})", "names no tensor"},
      {R"({"weight_map": {"a": 1}})", "tensor 'a': its file is not a text"},
      {R"({"weight_map": {"a": ""}})", "'' is no file of the folder"},
      {R"({"weight_map": {"a": ".."}})", "'..' is no file of the folder"},
      {R"({"weight_map": {"a": "../one"}})", "'../one' is no file of the folder"},
      {R"({"weight_map": {"a": "/etc/passwd"}})", "'/etc/passwd' is no file of the folder"},
      {R"({"weight_map": {"b": "one"}})", "tensor 'b' is not in 'one'"},
      {R"({"weight_map": {"c": "two"}})", "tensor 'c' is not in 'two'"},
      {R"({"weight_map": {"a": "one", "b": "two"}})", "tensor 'a' is in '"},
      {R"({"weight_map": {"a": "model.safetensors.index.json"}})", "is JSON"},
  };
  for (const auto& c : kCases) {
    WriteIndex(c.text);
    EXPECT_THAT(Open(),
                StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(c.message), HasSubstr(kModelIndex))));
  }
  WriteIndex(R"({"weight_map": {"a": "none"}})");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
}

TEST_F(WeightFilesTest, AFolderWithoutWeightsSaysWhatItHas) {
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("has neither model.safetensors nor")));
  dir_.Write("pytorch_model.bin", "PK");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("pytorch_model.bin is a pickle")));
  EXPECT_THAT(WeightFiles::OpenFolder(dir_.File("none")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such folder")));
}

}  // namespace
}  // namespace oneflow
