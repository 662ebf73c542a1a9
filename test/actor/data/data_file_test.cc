#include "actor/data/data_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

// One member of a gzip file.
std::string Member(const std::string& text) {
  z_stream stream = {};
  CHECK_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  CHECK_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// That of a file with these bytes.
absl::StatusOr<std::string> AllOf(const std::string& path) {
  OF_ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path));
  OF_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, file.ReadAll());
  return std::string(bytes.begin(), bytes.end());
}

std::string Noise(size_t size) {
  std::mt19937 random(7);
  std::string noise(size, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  return noise;
}

TEST(DataFileTest, AllMembersOfAGzipFileAreRead) {
  const TestDir dir;
  const std::string long_one = Noise(3 << 20);  // of several pieces
  const std::string kZeros(3000, '\0');
  const std::string a = Member("river "), b = Member("runs\n"), none = Member(""), noise = Member(long_one);
  const struct {
    const char* name;
    std::string packed, text;
  } cases[] = {
      {"one", a, "river "},
      {"none is long", none, ""},
      {"two", a + b, "river runs\n"},
      {"an empty one between, as bgzip ends a file", a + none + b + none, "river runs\n"},
      {"zeros behind", a + b + kZeros, "river runs\n"},
      {"one zero behind", a + std::string(1, '\0'), "river "},
      {"long ones", noise + a + noise, long_one + "river " + long_one},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<std::string> text = AllOf(dir.Write("file", c.packed));
    ASSERT_OK(text.status()) << c.name;
    EXPECT_TRUE(*text == c.text) << c.name << ": " << text->size() << " bytes for " << c.text.size();
  }
  // As many members as a block-wise compressor makes.
  std::string packed, text;
  for (int i = 0; i < 500; ++i) {
    const std::string line = absl::StrCat("line ", i, "\n");
    packed += Member(line), text += line;
  }
  EXPECT_EQ(*AllOf(dir.Write("file", packed)), text);
}

TEST(DataFileTest, WhateverElseFollowsAMemberIsDamageWithItsPlace) {
  const TestDir dir;
  const std::string a = Member("river "), b = Member("runs\n");
  const size_t n = a.size();
  std::string spoilt = b;
  spoilt[spoilt.size() - 6] ^= 1;  // its checksum
  const auto at = [](size_t byte) { return absl::StrCat("byte ", byte, " of "); };
  const struct {
    const char* name;
    std::string packed, where;
  } cases[] = {
      {"text", a + "river", at(n)},
      {"zeros, then text", a + std::string(70, '\0') + "x", at(n + 70)},
      {"zeros, then a member", a + std::string(2, '\0') + b, at(n + 2)},
      {"a member cut off", a + b.substr(0, b.size() - 1), absl::StrCat("in the member that begins at byte ", n)},
      {"a header cut off", a + b.substr(0, 5), absl::StrCat("in the member that begins at byte ", n)},
      {"a checksum", a + spoilt, absl::StrCat("in the member that begins at byte ", n, ": incorrect data check")},
      {"the first cut off", a.substr(0, n - 3), "in the member that begins at byte 0"},
  };
  for (const auto& c : cases) {
    const std::string path = dir.Write("file", c.packed);
    EXPECT_THAT(AllOf(path).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(absl::StrCat("data file '", path, "': ")),
                                                                   HasSubstr("gzip"), HasSubstr(c.where))))
        << c.name;
  }
}

TEST(DataFileTest, WhatIsNoFileIsRefusedAtOnce) {
  const TestDir dir;
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  for (const char* const name : {"pipe", "."}) {
    EXPECT_THAT(DataFile::Open(dir.File(name)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
  }
}

// The system keeps no bytes for zeros that nobody wrote.
TEST(DataFileTest, PlacesBeyond32BitsAreRight) {
  const TestDir dir;
  const std::string member = Member("river "), path = dir.Write("file", member);
  const uint64_t size = (uint64_t{1} << 32) + 5;
  std::filesystem::resize_file(path, size);
  std::ofstream(path, std::ios::binary | std::ios::app) << "x";
  EXPECT_THAT(AllOf(path).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("byte 4294967301 of 4294967302")));
}

}  // namespace
}  // namespace oneflow
