#include "actor/checkpoint/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/support/weight_file.h"

namespace oneflow {
namespace {

// A file with that JSON header and `data_bytes` bytes of data; the length is the header's unless given.
std::string FileWith(const std::string& json, size_t data_bytes, int64_t length = -1) {
  uint64_t n = length < 0 ? json.size() : static_cast<uint64_t>(length);
  std::string file(8, '\0');
  std::memcpy(file.data(), &n, 8);
  return file + json + std::string(data_bytes, 'x');
}

// A tensor's entry in a header, that of so many floats, and a header of entries.
std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape, int begin, int end) {
  return absl::StrFormat(R"("%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]})", name, dtype, shape, begin, end);
}
std::string Floats(const std::string& name, int count, int begin, int end) {
  return Entry(name, "F32", absl::StrCat(count), begin, end);
}
std::string Header(const std::vector<std::string>& entries) {
  return absl::StrCat("{", absl::StrJoin(entries, ","), "}");
}

TEST(SafetensorsTest, WhatWasWrittenIsReadBack) {
  const TestDir dir;
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
  const TestDir dir;
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
  const TestDir dir;
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
  const std::string good = Header({Floats("w", 2, 0, 8)});
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
      {"negative size", FileWith(Header({Floats("w", -2, 0, 8)}), 8), "no size"},
      {"size that is text", FileWith(R"({"w":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})", 8), "no size"},
      {"overflowing shape",
       FileWith(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8), "overflows"},
      {"no offsets", FileWith(R"({"w":{"dtype":"F32","shape":[2]}})", 8), "data_offsets"},
      {"one offset", FileWith(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8), "data_offsets"},
      {"offsets backwards", FileWith(Header({Floats("w", 2, 8, 0)}), 8), "takes 8 bytes"},
      {"offsets do not fit the shape", FileWith(Header({Floats("w", 2, 0, 4)}), 4), "f32[2] takes 8 bytes"},
      {"data cut off", FileWith(good, 7), "take 8 bytes, but 7 follow"},
      {"data left over", FileWith(good, 9), "take 8 bytes, but 9 follow"},
      {"overlap", FileWith(Header({Floats("a", 2, 0, 8), Floats("b", 2, 4, 12)}), 12), "begins at 4"},
      {"a header beyond the format's limit", FileWith(std::string(100'000'001, ' '), 0), "claims 100000001 bytes"},
      {"no UTF-8", FileWith("{\"\xff\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0),
       "not a JSON object"},
      {"the mark of UTF-8 before the JSON", FileWith("\xef\xbb\xbf{}", 0), "not a JSON object"},
      {"a zero and more behind the JSON", FileWith(std::string("{}\0{", 4), 0), "not a JSON object"},
      {"something behind the JSON", FileWith("{} {}", 0), "not a JSON object"},
      {"a comment", FileWith("{/* */}", 0), "not a JSON object"},
      {"dtype in lower case", FileWith(R"({"w":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}})", 8), "dtype 'f32'"},
      {"fractional size", FileWith(R"({"w":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8), "no size"},
      {"fractional offset", FileWith(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0.0,8]}})", 8), "data_offsets"},
      {"a size that no int64 holds",
       FileWith(R"({"w":{"dtype":"F32","shape":[0,9223372036854775808],"data_offsets":[0,0]}})", 0), "overflows"},
      {"sizes that overflow before a zero",
       FileWith(R"({"w":{"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", 0), "overflows"},
      {"the first tensor is not at 0", FileWith(Header({Floats("w", 2, 4, 12)}), 12),
       "begins at 4, but that of the tensors before it ends at 0"},
      {"an empty tensor within another", FileWith(Header({Floats("w", 2, 0, 8), Floats("e", 0, 4, 4)}), 8),
       "begins at 4"},
      {"a name that comes twice leaves a hole", FileWith(Header({Floats("w", 1, 0, 4), Floats("w", 1, 4, 8)}), 8),
       "begins at 4"},
      {"metadata that are a number", FileWith(R"({"__metadata__":3})", 0), "'__metadata__' is not an object"},
      {"metadata of a number", FileWith(R"({"__metadata__":{"format":3}})", 0),
       "'__metadata__': 'format' is not a text"},
      {"elements that do not end on a byte", FileWith(R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1),
       "3 elements of 4 bits do not end"},
      {"gap", FileWith(Header({Floats("a", 1, 0, 4), Floats("b", 1, 8, 12)}), 12), "begins at 8"},
  };
  const TestDir dir;
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    EXPECT_THAT(SafetensorsReader::Open(dir.Write("bad", c.contents)),
                StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(c.message), HasSubstr("weight file"))));
  }
  EXPECT_THAT(SafetensorsReader::Open(dir.File("absent")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
}

TEST(SafetensorsTest, WhatTheFormatAllowsIsRead) {
  const struct {
    const char* name;
    std::string contents;
    size_t tensors;
  } kCases[] = {
      {"no tensors", FileWith("{}", 0), 0},
      {"a header without padding", FileWith(R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2), 1},
      {"blanks and lines around it", FileWith(" \n{}\n \t", 0), 0},
      {"any order, and keys that nobody knows",
       FileWith(R"({"b":{"data_offsets":[4,6],"x":{"y":[1]},"shape":[1],"dtype":"I16"},
                    "a":{"shape":[2],"dtype":"U16","data_offsets":[0,4]}})",
                6),
       2},
      {"an unknown key that nests without end",
       FileWith(absl::StrCat(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":)", std::string(100'000, '['),
                             std::string(100'000, ']'), "}}"),
                0),
       1},
      {"metadata that are null", FileWith(R"({"__metadata__":null})", 0), 0},
      {"a scalar", FileWith(R"({"w":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8), 1},
      {"an empty name", FileWith(R"({"":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1), 1},
      {"empty tensors at the end and between others",
       FileWith(Header({Floats("a", 1, 0, 4), Entry("b", "C64", "0,7", 4, 4), Entry("c", "U32", "1", 4, 8),
                        Entry("d", "U64", "0", 8, 8)}),
                8),
       4},
      {"a name that comes twice in the same place",
       FileWith(Header({Floats("w", 1, 0, 4), Entry("w", "I32", "1", 0, 4)}), 4), 1},
      {"elements of less than a byte",
       FileWith(
           Header({Entry("a", "F4", "3,2", 0, 3), Entry("b", "F6_E3M2", "4", 3, 6), Entry("c", "F6_E2M3", "0", 6, 6)}),
           6),
       3},
      {"elements of eight bits",
       FileWith(Header({Entry("a", "F8_E5M2FNUZ", "1", 0, 1), Entry("b", "F8_E4M3FNUZ", "1", 1, 2),
                        Entry("c", "F8_E8M0", "1", 2, 3), Entry("d", "F8_E4M3", "1", 3, 4),
                        Entry("e", "F8_E5M2", "1", 4, 5)}),
                5),
       5},
  };
  const TestDir dir;
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(dir.Write("good", c.contents));
    ASSERT_OK(reader);
    EXPECT_EQ(reader->tensors().size(), c.tensors);
  }
}

// The bytes of the file that Python's package writes of these tensors.
TEST(SafetensorsTest, AFileIsTheOneThatPythonWrites) {
  const TestDir dir;
  const std::string path = dir.File("w");
  ASSERT_OK_AND_ASSIGN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(path, {{"a", {DType::kFloat32, {2, 1}}}, {"b", {DType::kBFloat16, {2}}}},
                                {{"format", "pt"}}));
  const float a[] = {1, 2};
  const uint16_t b[] = {0x3fc0, 0xc000};
  ASSERT_OK(writer.Write("a", 0, a, sizeof(a)));
  ASSERT_OK(writer.Write("b", 0, b, sizeof(b)));
  ASSERT_OK(writer.Close());
  std::ostringstream file;
  file << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = file.str();
  ASSERT_EQ(bytes.size(), 164u);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x90\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(152), std::string("\0\0\x80\x3f\0\0\0\x40\xc0\x3f\0\xc0", 12));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  EXPECT_EQ(reader.metadata().at("format"), "pt");
}

// 640 bytes of header: its length is the bytes with which a pickle begins. 123: '{'.
TEST(SafetensorsTest, NoLengthOfAHeaderIsTakenForAnotherKindOfFile) {
  const TestDir dir;
  for (const size_t length : {640u, 123u, 65536u + 640u}) {
    std::string json = R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
    json.resize(length, ' ');
    EXPECT_OK(SafetensorsReader::Open(dir.Write("w", FileWith(json, 2)))) << length;
  }
}

// Tensors without elements begin where their neighbours do, before and behind them.
TEST(SafetensorsTest, AnyNumberOfTensorsMayHaveNoElements) {
  const TestDir dir;
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
  const TestDir dir;
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
  const TestDir dir;
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
  const TestDir dir;
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
