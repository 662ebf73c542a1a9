#include "tools/control/process/temp_dir.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/control/process/memory_space.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

class TempDirTest : public ::testing::Test {
 protected:
  TempDirTest() {
    const char* const set = std::getenv("TMPDIR");
    former_ = set == nullptr ? "" : set;
    setenv("TMPDIR", parent_.File(".").c_str(), 1);
  }
  ~TempDirTest() override { former_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", former_.c_str(), 1); }

  int NumDirs() const {
    return static_cast<int>(std::distance(fs::directory_iterator(parent_.File(".")), fs::directory_iterator()));
  }
  // As a process leaves it that is killed: with what it holds, and without its lock.
  std::string LeftBehind(const std::string& name, const std::string& where = MemorySpace()) const {
    fs::create_directories(parent_.File(name + "/d0"));
    std::ofstream(parent_.File(name + "/.oneflow-temporary")) << where;
    std::ofstream(parent_.File(name + "/d0/log")) << "words";
    return parent_.File(name);
  }

  const TestDir parent_;
  std::string former_;
};

TEST_F(TempDirTest, IsRemovedWithAllItHolds) {
  {
    ASSERT_OK_AND_ASSIGN(const auto dir, TempDir::Make("of-test"));
    EXPECT_THAT(fs::path(dir->path()).filename().string(), ::testing::MatchesRegex("of-test-......"));
    std::ofstream(dir->path() + "/file") << "x";
    EXPECT_EQ(NumDirs(), 1);
  }
  EXPECT_EQ(NumDirs(), 0);
}

TEST_F(TempDirTest, TheNextOneSweepsWhatTheDeadHaveLeft) {
  const std::string dead = LeftBehind("of-test-aaaaaa");
  ASSERT_OK_AND_ASSIGN(const auto dir, TempDir::Make("of-test"));
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(dir->path()));
}

TEST_F(TempDirTest, WhatLivesOrIsNotOursStays) {
  ASSERT_OK_AND_ASSIGN(const auto first, TempDir::Make("of-test"));
  fs::create_directory(parent_.File("of-test-bbbbbb"));  // somebody's, without our mark
  const std::string other = LeftBehind("of-tests-cccccc"), longer = LeftBehind("of-test-longer7");
  const std::string elsewhere = LeftBehind("of-test-eeeeee", "another machine"),
                    unsaid = LeftBehind("of-test-ffffff", "");
  fs::create_symlink(longer, parent_.File("of-test-dddddd"));
  ASSERT_OK_AND_ASSIGN(const auto second, TempDir::Make("of-test"));
  EXPECT_TRUE(fs::exists(first->path()));
  EXPECT_TRUE(fs::exists(parent_.File("of-test-bbbbbb")));
  EXPECT_TRUE(fs::exists(other) && fs::exists(longer) && fs::exists(elsewhere) && fs::exists(unsaid));
}

TEST_F(TempDirTest, AKilledProcessIsSweptUpAfter) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto dir = TempDir::Make("of-test");
    if (!dir.ok() || write(ends[1], "x", 1) != 1) _exit(1);
    while (true) pause();
  }
  char ready;
  ASSERT_EQ(read(ends[0], &ready, 1), 1);
  EXPECT_EQ(NumDirs(), 1);
  {
    ASSERT_OK_AND_ASSIGN(const auto meanwhile, TempDir::Make("of-test"));
    EXPECT_EQ(NumDirs(), 2) << "it lives";
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(NumDirs(), 1);
  { ASSERT_OK_AND_ASSIGN(const auto next, TempDir::Make("of-test")); }
  EXPECT_EQ(NumDirs(), 0);
  close(ends[0]), close(ends[1]);
}

}  // namespace
}  // namespace oneflow
