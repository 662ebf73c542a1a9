// Which files jobs may use: what is refused before they start, and what the kernel refuses later.
#include "tools/control/security/paths.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/control/process/temp_dir.h"

namespace oneflow {
namespace {

constexpr auto kDenied = absl::StatusCode::kPermissionDenied;

class AllowedPathsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"data", "other"}) std::filesystem::create_directory(dir_.File(folder));
    dir_.Write("data/text", "text");
    dir_.Write("other/text", "text");
    ASSERT_OK_AND_ASSIGN(work_, TempDir::Make("work"));
    ASSERT_OK_AND_ASSIGN(allowed_, AllowedPaths::Beneath({dir_.File("data")}));
  }
  absl::Status Check(const std::string& path) const { return allowed_.Check(JobPath{"weights", dir_.File(path)}); }
  // What a child says that was confined to data/ before it did this.
  int ExitOfConfined(const std::function<bool()>& act) {
    const pid_t child = fork();
    if (child == 0) _exit(!allowed_.ConfineThread(work_->path()).ok() ? 2 : act() ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  }

  const TestDir dir_;
  std::unique_ptr<TempDir> work_;
  AllowedPaths allowed_;
};

TEST_F(AllowedPathsTest, WhatLiesBeneathIsAllowedAlsoIfItIsNotThereYet) {
  for (const char* path : {"data", "data/", "data/text", "data/none/below", "data/../data/./text"}) {
    EXPECT_OK(Check(path)) << path;
  }
  EXPECT_OK(AllowedPaths().Check({"weights", "/etc/passwd"})) << "everything";
}

TEST_F(AllowedPathsTest, WhatLeadsOutsideIsRefusedWithBothPaths) {
  EXPECT_THAT(Check("other/text"),
              StatusIs(kDenied, absl::StrCat("weights: '", dir_.File("other/text"),
                                             "' is not for jobs; this daemon allows what is beneath '",
                                             dir_.File("data"), "'")));
  EXPECT_THAT(Check("data/../other/text"),
              StatusIs(kDenied, HasSubstr(absl::StrCat("which leads to '", dir_.File("other/text"), "'"))));
  for (const char* path : {"data2", "data/none/../../other", ""}) {
    EXPECT_THAT(Check(path), StatusIs(kDenied, HasSubstr("is not for jobs"))) << path;
  }
  EXPECT_THAT(allowed_.Check({"weights", "relative"}), StatusIs(kDenied, HasSubstr("which leads to '/")));
}

TEST_F(AllowedPathsTest, LinksCountForWhereTheyLead) {
  std::filesystem::create_symlink(dir_.File("other"), dir_.File("data/out"));
  std::filesystem::create_symlink(dir_.File("data"), dir_.File("in"));
  EXPECT_THAT(Check("data/out/text"), StatusIs(kDenied, HasSubstr("/other/text'")));
  EXPECT_THAT(Check("data/out/none"), StatusIs(kDenied, HasSubstr("/other/none'")));
  EXPECT_OK(Check("in/text"));
}

TEST_F(AllowedPathsTest, AllPathsOfAJobAreLookedAt) {
  pb::JobSpec spec;
  spec.set_weights("/w");
  spec.mutable_checkpoint()->set_path("/c");
  spec.set_resume_from("/r");
  spec.set_tensorboard("/b");
  spec.add_phases()->mutable_save()->set_path("/s");
  spec.add_phases()->mutable_trace()->set_path("/t");
  pb::Program program;
  pb::Instruction& read = *program.add_plans()->add_actors()->add_instructions();
  read.set_kind(pb::Instruction::READ);
  for (const char* name : {"dataset", "images", "labels", "split"}) {
    pb::Attribute& attribute = *read.add_attributes();
    attribute.set_name(name);
    attribute.set_s(absl::StrCat("/", name));
  }
  std::vector<std::string> paths;
  for (const JobPath& path : PathsOf(spec, program)) paths.push_back(path.path);
  EXPECT_THAT(paths, ::testing::UnorderedElementsAre("/w", "/c", "/r", "/b", "/s", "/t", "/images", "/labels"));
  EXPECT_THAT(allowed_.Check(spec, program), StatusIs(kDenied, HasSubstr("weights: '/w'")));
  EXPECT_OK(allowed_.Check(pb::JobSpec(), pb::Program()));
}

// Every field of a job's spec that holds text, also of the messages in it, by its name within the spec:
// "phases.save.path".
void AddTexts(const google::protobuf::Descriptor& message, const std::string& prefix, std::vector<std::string>& texts) {
  for (int i = 0; i < message.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *message.field(i);
    const std::string name = absl::StrCat(prefix, field.name());
    if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) texts.push_back(name);
    if (field.message_type() != nullptr) AddTexts(*field.message_type(), absl::StrCat(name, "."), texts);
  }
}
// Sets the field of this name, in the only element of whatever is repeated on the way.
void SetText(absl::string_view name, const std::string& text, google::protobuf::Message& message) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, absl::MaxSplits('.', 1));
  const google::protobuf::FieldDescriptor& field = *message.GetDescriptor()->FindFieldByName(std::string(parts[0]));
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (parts.size() > 1) {
    return SetText(
        parts[1], text,
        field.is_repeated() ? *reflection.AddMessage(&message, &field) : *reflection.MutableMessage(&message, &field));
  }
  if (field.is_repeated()) {
    reflection.AddString(&message, &field, text);
  } else {
    reflection.SetString(&message, &field, text);
  }
}

// A law: whatever of a spec says that it is a path is looked at before its job starts. That every text says whether it
// is one holds test/tools/job/field_rules_test.cc.
TEST_F(AllowedPathsTest, EveryPathOfASpecIsLookedAt) {
  std::vector<std::string> texts;
  AddTexts(*pb::JobSpec::descriptor(), "", texts);
  std::set<std::string> refused;
  for (const std::string& text : texts) {
    pb::JobSpec spec;
    SetText(text, "/where/it/leads", spec);
    if (!allowed_.Check(spec, pb::Program()).ok()) refused.insert(text);
  }
  EXPECT_THAT(refused, ::testing::UnorderedElementsAre("weights", "checkpoint.path", "resume_from", "tensorboard",
                                                       "offload_folder", "phases.save.path", "phases.trace.path"));
}

TEST_F(AllowedPathsTest, AFolderThatIsNotThereIsAMistake) {
  EXPECT_THAT(AllowedPaths::Beneath({dir_.File("none")}).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none' is no folder")));
  ASSERT_OK_AND_ASSIGN(const AllowedPaths nothing, AllowedPaths::Beneath({}));
  EXPECT_THAT(nothing.Check({"weights", "/w"}),
              StatusIs(kDenied, HasSubstr("allows nothing (start it with --allow-path")));
}

TEST_F(AllowedPathsTest, AFileIsOpenedWhereItHasComeToLie) {
  ASSERT_OK_AND_ASSIGN(const OpenedFile text, allowed_.Open({"trace", dir_.File("data/text")}));
  char bytes[4];
  EXPECT_EQ(read(text.fd(), bytes, sizeof(bytes)), 4);
  EXPECT_THAT(allowed_.Open({"trace", dir_.File("other/text")}).status(), StatusIs(kDenied, HasSubstr("trace: '")));
  std::filesystem::create_symlink(dir_.File("other/text"), dir_.File("data/link"));
  EXPECT_THAT(allowed_.Open({"trace", dir_.File("data/link")}).status(), StatusIs(kDenied, HasSubstr("other/text")));
  EXPECT_THAT(allowed_.Open({"trace", dir_.File("data/none")}).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("data/none")));
  ASSERT_EQ(mkfifo(dir_.File("data/fifo").c_str(), 0600), 0);
  EXPECT_THAT(allowed_.Open({"trace", dir_.File("data/fifo")}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no regular file")))
      << "and nobody waits";
  EXPECT_OK(AllowedPaths().Open({"trace", dir_.File("other/text")}));
}

// Whoever swaps a link again and again gets nothing of what lies outside.
TEST_F(AllowedPathsTest, NoLinkThatIsSwappedMeanwhileLeadsOutside) {
  std::atomic<bool> done = false;
  std::thread swapper([&] {
    for (int i = 0; !done; ++i) {
      std::filesystem::create_symlink(dir_.File(i % 2 == 0 ? "data/text" : "other/secret"), dir_.File("data/next"));
      std::filesystem::rename(dir_.File("data/next"), dir_.File("data/swapped"));
    }
  });
  dir_.Write("other/secret", "secret");
  int opened = 0;
  for (int i = 0; i < 2000; ++i) {
    const absl::StatusOr<OpenedFile> file = allowed_.Open({"trace", dir_.File("data/swapped")});
    if (!file.ok()) continue;
    char first = 0;
    ASSERT_EQ(pread(file->fd(), &first, 1, 0), 1);
    ASSERT_EQ(first, 't');
    ++opened;
  }
  done = true;
  swapper.join();
  EXPECT_GT(opened, 0);
}

// A job's paths are looked at before it starts; a link that is swapped afterwards leads wherever its worker may read.
TEST_F(AllowedPathsTest, ASecretLiesWhereNoLinkLeads) {
  EXPECT_OK(allowed_.CheckSecret(dir_.File("other"), work_->path()));
  std::filesystem::create_directory(dir_.File("data/keys"));
  std::filesystem::create_symlink(dir_.File("data/keys"), dir_.File("keys"));
  for (const std::string& secret :
       {dir_.File("data/keys"), dir_.File("keys"), work_->path() + "/tls", std::string("/opt/oneflow/tls")}) {
    EXPECT_THAT(
        allowed_.CheckSecret(secret, work_->path()),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr(secret), HasSubstr("which jobs may read: a job could be led to it by a link"))));
  }
  EXPECT_OK(AllowedPaths().CheckSecret("/", work_->path())) << "who allows everything has said so";
}

// A link that is made after the check, as one who may write in the folder could.
TEST_F(AllowedPathsTest, TheKernelRefusesWhatLeadsOutsideLater) {
  const auto reads = [this](const char* path) { return std::ifstream(dir_.File(path)).good(); };
  const auto writes = [this](const char* path) { return std::ofstream(dir_.File(path)).good(); };
  const int inside = ExitOfConfined([&] { return reads("data/text") && writes("data/new"); });
  if (inside == 2) GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(inside, 0);
  EXPECT_EQ(ExitOfConfined([&] { return std::ofstream(work_->path() + "/log").good(); }), 0);
  EXPECT_EQ(ExitOfConfined([&] { return work_.reset(), true; }), 0);
  EXPECT_FALSE(std::filesystem::exists(work_->path())) << "as a daemon leaves its own";
  EXPECT_EQ(ExitOfConfined([&] { return reads("other/text"); }), 1);
  EXPECT_EQ(ExitOfConfined([&] { return writes("other/new"); }), 1);
  ASSERT_OK(Check("data/late/text"));
  std::filesystem::create_symlink(dir_.File("other"), dir_.File("data/late"));
  EXPECT_EQ(ExitOfConfined([&] { return reads("data/late/text"); }), 1);
  EXPECT_EQ(ExitOfConfined([&] { return writes("data/late/new"); }), 1);
  EXPECT_FALSE(std::filesystem::exists(dir_.File("other/new")));
  EXPECT_EQ(ExitOfConfined([&] { return std::ifstream("/etc/shadow").good(); }), 1);
  EXPECT_EQ(ExitOfConfined([&] { return std::ofstream("/dev/null").good(); }), 0);
  EXPECT_EQ(ExitOfConfined([&] { return std::ofstream("/dev/full").good(); }), 1);
  EXPECT_EQ(ExitOfConfined([&] { return std::ifstream("/proc/self/status").good(); }), 0);
}

}  // namespace
}  // namespace oneflow
