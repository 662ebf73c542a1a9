#include "tools/job/outputs.h"

#include <sys/stat.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

TEST(OutputsTest, TwoThatAreOneFileAreRefusedHoweverTheyAreNamed) {
  const TestDir dir;
  dir.Write("a", "");
  fs::create_directory(dir.File("sub"));
  fs::create_symlink("a", dir.File("link"));
  fs::create_symlink("not yet", dir.File("to nothing"));
  fs::create_symlink(dir.File("."), dir.File("sub/up"));
  fs::create_hard_link(dir.File("a"), dir.File("hard"));
  const struct {
    const char *one, *other;
    bool apart;
  } cases[] = {{"a", "a", false},
               {"a", "./a", false},
               {"a", "sub/../a", false},
               {"a", "link", false},
               {"a", "hard", false},
               {"a", "sub/up/a", false},
               {"new", "./new", false},
               {"to nothing", "not yet", false},
               {"sub/up/new", "new", false},
               {"sub", "sub/", false},
               {"a", "b", true},
               {"new", "newer", true},
               {"a", "sub/a", true}};
  for (const auto& c : cases) {
    SCOPED_TRACE(absl::StrCat(c.one, " and ", c.other));
    const NamedPath one{"save_weights", dir.File(c.one)}, other{"--metrics", dir.File(c.other)};
    const absl::Status outputs = CheckApart({one, other}, {}), input = CheckApart({one}, {other});
    if (c.apart) {
      EXPECT_OK(outputs);
      EXPECT_OK(input);
      continue;
    }
    EXPECT_THAT(outputs, StatusIs(absl::StatusCode::kInvalidArgument,
                                  AllOf(HasSubstr("--metrics '"), HasSubstr("and save_weights '"),
                                        HasSubstr("one would replace the other"))));
    EXPECT_THAT(input, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("what is read would be replaced")));
  }
}

TEST(OutputsTest, APipeMayTakeSeveral) {
  const TestDir dir;
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_OK(CheckApart({{"--metrics", dir.File("pipe")}, {"--html", dir.File("pipe")}}, {}));
}

// Whatever a config may name, so that a new field is not forgotten in either list.
TEST(OutputsTest, AllFilesOfAConfigAreKnown) {
  SourcedConfig config{.file = "/job.pbtxt"};
  pb::JobConfig& c = config.config;
  c.set_save_weights("/1"), c.set_save_initial_weights("/2"), c.set_save_gradients("/3");
  c.mutable_trace()->set_file("/4"), c.mutable_checkpoint()->set_path("/5"), c.set_tensorboard("/6");
  EXPECT_EQ(OutputsOf(config).size(), 6u);
  c.mutable_data()->mutable_text()->set_path("/7"), c.mutable_model()->set_graph("/8");
  c.mutable_cluster()->set_device_table("/9"), c.mutable_pipeline()->set_costs("/10");
  c.set_slots("/11"), c.set_weights("/12");
  EXPECT_EQ(InputsOf(config).size(), 7u);
}

TEST(OutputsTest, WhereNoFileCanBeIsSaidBeforeTraining) {
  const TestDir dir;
  fs::create_symlink("none/w", dir.File("w"));
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_OK(CheckWritable(dir.File("new"), false));
  EXPECT_OK(CheckWritable(dir.File("pipe"), true));
  const struct {
    const char *name, *why;
  } cases[] = {{".", "it is a directory"},
               {"none/x", "there is no folder '"},
               {"w", "there is no folder '"},
               {"pipe", "it is a pipe, and must be a regular file"}};
  for (const auto& c : cases) {
    const std::string path = dir.File(c.name);
    EXPECT_THAT(CheckWritable(path, false), StatusIs(absl::StatusCode::kInvalidArgument,
                                                     HasSubstr(absl::StrCat("cannot write '", path, "': ", c.why))));
  }
}

}  // namespace
}  // namespace oneflow
