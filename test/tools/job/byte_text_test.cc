#include "tools/job/byte_text.h"

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(ByteTextTest, NumbersOfUnits) {
  const std::pair<const char*, int64_t> kCases[] = {{"18GB", 18'000'000'000},
                                                    {"1.5 GiB", 1'610'612'736},
                                                    {"900MB", 900'000'000},
                                                    {"2MiB", 2'097'152},
                                                    {"12kB", 12'000},
                                                    {"1KiB", 1024},
                                                    {"7B", 7},
                                                    {"4096", 4096},
                                                    {"1e9", 1'000'000'000}};
  for (const auto& [text, bytes] : kCases) {
    ASSERT_OK_AND_ASSIGN(const int64_t found, BytesOfText(text));
    EXPECT_EQ(found, bytes) << text;
  }
}

TEST(ByteTextTest, AllElseIsRefused) {
  for (const char* text : {"", "GB", "-1GB", "18TB", "18gb", "x", "1 2", "0", "0.5", "nan", "inf", "1e30", "+4"}) {
    EXPECT_THAT(BytesOfText(text).status().message(), ::testing::HasSubstr("is no size of memory")) << text;
  }
}

}  // namespace
}  // namespace oneflow
