#include "tools/job/slots.h"

#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

TEST(SlotsTest, WhatIsWrittenIsRead) {
  const TestDir dir;
  const SlotsByName slots = {{"evaluate", {}}, {"train", {{"a \"quoted\" name", 3}, {"h0/mlp/up/matmul:1", 2}}}};
  SlotsByName expected = slots;
  expected.erase("evaluate");  // names no register
  ASSERT_OK_AND_ASSIGN(const SlotsByName read, ReadSlots(dir.Write("slots", SlotsText(slots))));
  EXPECT_EQ(read, expected);
}

TEST(SlotsTest, BadFilesSayWhereTheyAreBad) {
  const TestDir dir;
  EXPECT_THAT(ReadSlots(dir.File("none")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none': cannot open: No such file")));
  EXPECT_THAT(ReadSlots(dir.Write("a", "plans {\n  nam: \"x\"\n}")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a':2: ")));
  const std::string twice = "registers { name: \"r\" slots: 1 } ";
  EXPECT_THAT(ReadSlots(dir.Write("b", "plans { name: \"train\" " + twice + twice + "}")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("plan 'train': register 'r' comes twice")));
}

}  // namespace
}  // namespace oneflow
