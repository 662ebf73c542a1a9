#include "tools/job/read_text.h"

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/job/config.h"
#include "tools/job/device_table.h"
#include "tools/job/slots.h"

namespace oneflow {
namespace {

constexpr char kMark[] = "\xef\xbb\xbf";

TEST(ReadTextTest, LeavesOutTheMarkOfUtf8Only) {
  const TestDir dir;
  EXPECT_EQ(*ReadText("text", dir.Write("a", "")), "");
  EXPECT_EQ(*ReadText("text", dir.Write("a", kMark)), "");
  EXPECT_EQ(*ReadText("text", dir.Write("a", std::string(kMark) + "x")), "x");
  EXPECT_EQ(*ReadText("text", dir.Write("a", std::string("x") + kMark)), std::string("x") + kMark);
  const std::string bytes("\0\n\xff\r\n", 5);
  EXPECT_EQ(*ReadText("text", dir.Write("a", bytes)), bytes);
}

TEST(ReadTextTest, SaysWhatCannotBeText) {
  const TestDir dir;
  for (const std::string& mark : {std::string("\xff\xfe"), std::string("\xfe\xff"), std::string("\xff\xfe\0\0", 4),
                                  std::string("\0\0\xfe\xff", 4)}) {
    const std::string path = dir.Write("a", mark + "x");
    EXPECT_THAT(
        ReadText("job config", path),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(absl::StrCat("job config '", path, "': begins with the byte-order mark of UTF-16"))));
  }
  EXPECT_THAT(ReadText("slots", dir.File("none")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none': cannot open: No such file or directory")));
  EXPECT_THAT(ReadText("slots", dir.File(".")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("': is a directory")));
}

// Whatever a person may have written in an editor of another system.
TEST(ReadTextTest, ConfigsOfAllKindsMayBeginWithAMark) {
  const TestDir dir;
  const absl::StatusOr<SourcedConfig> config =
      LoadConfig(dir.Write("job", std::string(kMark) + "name: 'marked'\n"), {});
  ASSERT_OK(config.status());
  EXPECT_EQ(config->config.name(), "marked");
  EXPECT_OK(ReadSlots(dir.Write("slots", std::string(kMark) + "plans { name: 'train' }")).status());
  // Read as far as to say what is missing.
  EXPECT_THAT(ReadDeviceTable(dir.Write("table", kMark)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no rows")));
}

}  // namespace
}  // namespace oneflow
