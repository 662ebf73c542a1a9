#include "tools/cli/manual.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/support/names.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

// A command line of two commands for people, of which one has one of its own, and one that is not for them.
class ManualTest : public ::testing::Test {
 protected:
  ManualTest() : app_("trains what it's told", "tool") {
    CLI::App* const run = app_.add_subcommand("run", "run a job: now");
    run->add_option("job", text_, "file of the job");
    run->add_option("-o,--out", text_, ".where it's written");
    run->add_flag("--dry", flag_, "only say so");
    app_.add_subcommand("plan", "look at plans")->add_subcommand("show", "print one");
    app_.add_subcommand("worker", "inner")->group("");
  }

  // What bash offers behind these words, the last of which is not complete.
  std::string Offers(const std::string& words, int last) {
    const std::string script = absl::StrCat(BashCompletion(app_), "COMP_WORDS=(", words, "); COMP_CWORD=", last,
                                            "; cd ", nowhere_.File(""), "; _tool; echo ${COMPREPLY[@]}");
    FILE* const bash = popen(absl::StrCat("bash -c '", script, "'").c_str(), "r");
    char line[1024] = {};
    const bool read = fgets(line, sizeof(line), bash) != nullptr;
    EXPECT_EQ(pclose(bash), 0);
    return read ? line : "";
  }

  const TestDir nowhere_;  // without files that bash could offer
  CLI::App app_;
  std::string text_;
  bool flag_ = false;
};

TEST_F(ManualTest, BashOffersWhatMayComeNext) {
  EXPECT_EQ(Offers("tool ru", 1), "run\n");
  EXPECT_EQ(Offers("tool run --", 2), "--help --out --dry\n");
  EXPECT_EQ(Offers("tool plan sh", 2), "show\n");
  EXPECT_EQ(Offers("tool run x.pbtxt --d", 3), "--dry\n");
  EXPECT_EQ(Offers("tool work", 1), "\n") << "not for people";
}

TEST_F(ManualTest, ZshIsToldWhatChoicesAreFor) {
  const std::string script = ZshCompletion(app_);
  EXPECT_THAT(script, HasSubstr("(\"tool\") choices=('run:run a job\\: now' 'plan:look at plans'"));
  EXPECT_THAT(script, HasSubstr("'--out:.where it'\\''s written'"));
  EXPECT_THAT(script, Not(HasSubstr("worker")));
}

TEST_F(ManualTest, TheManPageHasEveryCommandAndObeysNoText) {
  const std::string page = ManPage(app_);
  EXPECT_THAT(page, HasSubstr(".SS tool plan show\nprint one\n"));
  EXPECT_THAT(page, HasSubstr(".B \\-o, \\-\\-out VALUE\n\\&.where it's written\n"));
  EXPECT_THAT(page, HasSubstr(".B \\-\\-dry\nonly say so\n"));
  EXPECT_THAT(page, Not(HasSubstr("worker")));
}

}  // namespace
}  // namespace oneflow
