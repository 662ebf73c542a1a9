#include "actor/checkpoint/safetensors.h"

#include <cstring>
#include <fstream>
#include <sstream>

#include "test/support/status_matchers.h"
#include "test/support/temp_dir.h"

namespace oneflow {
namespace {

using ::oneflow::testing::StatusIs;
using ::oneflow::testing::TempDir;
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
  for (int i = 0; i < 6; ++i) static_cast<float*>(writer.data("a"))[i] = 0.5f * i;
  static_cast<int64_t*>(writer.data("b/\"quoted\""))[1] = -7;
  ASSERT_OK(writer.Close());

  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  ASSERT_EQ(reader.tensors().size(), 4u);
  const auto& a = reader.tensors().at("a");
  EXPECT_EQ(a.type.ToString(), "f32[2,3]");
  EXPECT_EQ(static_cast<const float*>(a.data)[5], 2.5f);
  EXPECT_EQ(static_cast<const int64_t*>(reader.tensors().at("b/\"quoted\"").data)[1], -7);
  EXPECT_EQ(reader.tensors().at("empty").type.ToString(), "u8[0,4]");
}

TEST(SafetensorsTest, SeveralWritersFillDisjointPartsOfOneFile) {
  const TempDir dir;
  const std::string path = dir.File("w.safetensors");
  const std::vector<SafetensorsWriter::Tensor> tensors = {{"w", {DType::kFloat32, {4}}}};
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter first, SafetensorsWriter::Create(path, tensors));
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter second, SafetensorsWriter::Attach(path, tensors));
  static_cast<float*>(first.data("w"))[0] = 1;
  static_cast<float*>(second.data("w"))[3] = 4;
  ASSERT_OK(second.Close());
  ASSERT_OK(first.Close());
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  const float* w = static_cast<const float*>(reader.tensors().at("w").data);
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
