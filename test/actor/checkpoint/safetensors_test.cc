#include "actor/checkpoint/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "test/support/status_matchers.h"
#include "test/support/temp_dir.h"
#include "test/support/weight_file.h"

namespace oneflow {
namespace {

using ::oneflow::testing::ReadWeightFile;
using ::oneflow::testing::StatusIs;
using ::oneflow::testing::TempDir;
using ::oneflow::testing::WeightFile;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A file with that JSON header and `data_bytes` bytes of data; the length is the header's unless given.
std::string FileWith(const std::string& json, size_t data_bytes, int64_t length = -1) {
  uint64_t n = length < 0 ? json.size() : static_cast<uint64_t>(length);
  std::string file(8, '\0');
  std::memcpy(file.data(), &n, 8);
  return file + json + std::string(data_bytes, 'x');
}

TEST(SafetensorsTest, WhatWasWrittenIsReadBack) {
  const TempDir dir;
  const std::string path = dir.File("w.safetensors");
  const std::vector<SafetensorsWriter::Tensor> tensors = {{"b/\"quoted\"", {DType::kInt64, {2}}},
                                                          {"a", {DType::kFloat32, {2, 3}}},
                                                          {"scalar", {DType::kBFloat16, {}}},
                                                          {"empty", {DType::kUInt8, {0, 4}}}};
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create(path, tensors));
  const float half = 2.5f;
  const int64_t seven = -7;
  ASSERT_OK(writer.Write("a", 5 * sizeof(float), &half, sizeof(half)));
  ASSERT_OK(writer.Write("b/\"quoted\"", sizeof(seven), &seven, sizeof(seven)));
  ASSERT_OK(writer.Close());

  ASSERT_OK_AND_ASSIGN(const WeightFile file, ReadWeightFile(path));
  ASSERT_EQ(file.tensors.size(), 4u);
  const auto& a = file.tensors.at("a");
  EXPECT_EQ(a.type.ToString(), "f32[2,3]");
  EXPECT_EQ(a.as<float>()[5], 2.5f);
  EXPECT_EQ(file.tensors.at("b/\"quoted\"").as<int64_t>()[1], -7);
  EXPECT_EQ(file.tensors.at("empty").type.ToString(), "u8[0,4]");
}

TEST(SafetensorsTest, SeveralWritersFillDisjointPartsOfOneFile) {
  const TempDir dir;
  const std::string path = dir.File("w.safetensors");
  const std::vector<SafetensorsWriter::Tensor> tensors = {{"w", {DType::kFloat32, {4}}}};
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter first, SafetensorsWriter::Create(path, tensors));
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter second, SafetensorsWriter::Attach(path, tensors));
  const float one = 1, four = 4;
  ASSERT_OK(first.Write("w", 0, &one, sizeof(one)));
  ASSERT_OK(second.Write("w", 3 * sizeof(four), &four, sizeof(four)));
  ASSERT_OK(second.Close());
  ASSERT_OK(first.Close());
  ASSERT_OK_AND_ASSIGN(const WeightFile file, ReadWeightFile(path));
  const float* w = file.tensors.at("w").as<float>();
  EXPECT_EQ(w[0] + w[1] + w[2] + w[3], 5);
}

TEST(SafetensorsTest, AttachingToAnotherFileIsRefused) {
  const TempDir dir;
  const std::string path = dir.File("w.safetensors");
  ASSERT_OK(SafetensorsWriter::Create(path, {{"w", {DType::kFloat32, {4}}}}));
  EXPECT_THAT(SafetensorsWriter::Attach(path, {{"w", {DType::kFloat32, {5}}}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("expected")));
  EXPECT_THAT(SafetensorsWriter::Attach(path, {{"v", {DType::kFloat32, {4}}}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("header")));
}

TEST(SafetensorsTest, AnUnwritablePathIsAnError) {
  EXPECT_THAT(SafetensorsWriter::Create("/no/such/directory/w", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/no/such/directory/w")));
}

TEST(SafetensorsTest, MalformedFilesGetOneClearError) {
  const std::string good = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const struct {
    const char* name;
    std::string contents;
    const char* message;
  } kCases[] = {
      {"empty file", "", "has 0 bytes"},
      {"shorter than its length field", "abc", "has 3 bytes"},
      {"header longer than the file", FileWith(good, 8, 1 << 20), "claims 1048576 bytes"},
      {"header of absurd length", FileWith(good, 8, int64_t{1} << 62), "claims"},
      {"no JSON", FileWith("{\"w\": ", 8), "not a JSON object"},
      {"JSON, but a list", FileWith("[1,2]", 0), "not a JSON object"},
      {"entry is a number", FileWith(R"({"w":3})", 0), "tensor 'w': its header entry is not an object"},
      {"no dtype", FileWith(R"({"w":{"shape":[2],"data_offsets":[0,8]}})", 8), "no string 'dtype'"},
      {"unknown dtype", FileWith(R"({"w":{"dtype":"F8","shape":[2],"data_offsets":[0,8]}})", 8), "dtype 'F8'"},
      {"no shape", FileWith(R"({"w":{"dtype":"F32","data_offsets":[0,8]}})", 8), "no list 'shape'"},
      {"negative size", FileWith(R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "no size"},
      {"size that is text", FileWith(R"({"w":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})", 8), "no size"},
      {"overflowing shape",
       FileWith(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8), "overflows"},
      {"no offsets", FileWith(R"({"w":{"dtype":"F32","shape":[2]}})", 8), "data_offsets"},
      {"one offset", FileWith(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8), "data_offsets"},
      {"offsets backwards", FileWith(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "takes 8 bytes"},
      {"offsets do not fit the shape", FileWith(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
       "f32[2] takes 8 bytes"},
      {"data cut off", FileWith(good, 7), "take 8 bytes, but 7 follow"},
      {"data left over", FileWith(good, 9), "take 8 bytes, but 9 follow"},
      {"overlap",
       FileWith(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                               "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                12),
       "begins at 4"},
      {"gap",
       FileWith(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                           "b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                12),
       "begins at 8"},
  };
  const TempDir dir;
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    EXPECT_THAT(SafetensorsReader::Open(dir.Write("bad", c.contents)),
                StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(c.message), HasSubstr("weight file"))));
  }
  EXPECT_THAT(SafetensorsReader::Open(dir.File("absent")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
}

// Tensors without elements begin where their neighbours do, before and behind them.
TEST(SafetensorsTest, AnyNumberOfTensorsMayHaveNoElements) {
  const TempDir dir;
  const std::string path = dir.File("w");
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (int i = 0; i < 40; ++i) {
    tensors.push_back({absl::StrCat("t", i), {DType::kFloat32, {i % 3 == 1 ? 2 : 0, 3}}});
  }
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create(path, tensors));
  ASSERT_OK(writer.Close());
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  EXPECT_EQ(reader.tensors().size(), tensors.size());
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter empty, SafetensorsWriter::Create(path, {{"n", {DType::kInt64, {0}}}}));
  ASSERT_OK(empty.Close());
  EXPECT_OK(SafetensorsReader::Open(path)) << "a file that is a header alone";
}

TEST(SafetensorsTest, AFileThatIsCutShortWhileItIsReadIsAnError) {
  const TempDir dir;
  const std::string path = dir.File("w");
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create(path, {{"w", {DType::kFloat32, {5000}}}}));
  ASSERT_OK(writer.Close());
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  std::filesystem::resize_file(path, 4096);
  std::vector<float> values(5000);
  const SafetensorsReader::Entry& w = reader.tensors().at("w");
  EXPECT_OK(reader.Read(w, 0, 1000, values.data()));
  EXPECT_THAT(reader.Read(w, 0, 20000, values.data()),
              StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr(path), HasSubstr("ends at byte 4096"))));
}

TEST(SafetensorsTest, WhatPeopleGiveByMistakeIsCalledByItsName) {
  const TempDir dir;
  const struct {
    std::string contents;
    const char* message;
  } kCases[] = {
      {std::string("PK\x03\x04\0\0\x08\x08archive/data.pkl", 24), "is a pickle, as torch.save writes it"},
      {std::string("\x80\x02}q\0X\x01\0\0\0wq", 13), "is a pickle, as torch.save writes it"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n", "is a pointer of Git LFS"},
      {"{\"metadata\": {}, \"weight_map\": {}}", "is JSON, such as the index of a model in several files"},
      {"GGUF\x03\0\0\0", "is a GGUF file"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(SafetensorsReader::Open(dir.Write("w", c.contents)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
  std::filesystem::create_directory(dir.File("folder"));
  EXPECT_THAT(SafetensorsReader::Open(dir.File("folder")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is a folder")));
}

TEST(SafetensorsTest, NoPrefixOfAGoodFileCrashesTheReader) {
  const TempDir dir;
  const std::string path = dir.File("w");
  {
    ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer,
                         SafetensorsWriter::Create(path, {{"a", {DType::kFloat32, {3}}}, {"b", {DType::kInt32, {2}}}}));
    ASSERT_OK(writer.Close());
  }
  std::ostringstream whole;
  whole << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = whole.str();
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(SafetensorsReader::Open(dir.Write("cut", bytes.substr(0, n))).ok())
        << n << " of " << bytes.size() << " bytes";
  }
}

}  // namespace
}  // namespace oneflow
