#include "tools/control/process/child.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "tools/control/process/ready_pipe.h"
#include "tools/control/process/temp_dir.h"

namespace oneflow {
namespace {

constexpr absl::Duration kAwaitLimit = absl::Seconds(10);  // of waits that end at once when all is well

ChildOptions Shell(const std::string& script) {
  ChildOptions options;
  options.executable = "/bin/sh";
  options.arguments = {"sh", "-c", script};
  return options;
}

// Runs a script to its end.
ChildExit RunChild(ChildOptions options) {
  ChildExit result{.exit_code = -1};
  auto child = ChildProcess::Start(std::move(options), [&result](ChildExit exit) { result = exit; });
  EXPECT_OK(child);
  EXPECT_TRUE((*child)->WaitForExit(kAwaitLimit));
  return result;
}

TEST(ChildProcessTest, ReportsTheExitCodeOrTheSignal) {
  EXPECT_EQ(RunChild(Shell("exit 7")).exit_code, 7);
  EXPECT_EQ(RunChild(Shell("exit 7")).signal, 0);
  EXPECT_EQ(RunChild(Shell("kill -9 $$")).signal, SIGKILL);
}

TEST(ChildProcessTest, AProgramThatIsMissingIsAnErrorOfStart) {
  ChildOptions options;
  options.executable = "/no/such/program";
  options.arguments = {"x"};
  EXPECT_THAT(ChildProcess::Start(options).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("cannot start '/no/such/program'")));
}

TEST(ChildProcessTest, OutputGoesToTheLogAndTheEnvironmentIsExtended) {
  ASSERT_OK_AND_ASSIGN(const auto dir, TempDir::Make("child-test"));
  ChildOptions options = Shell("echo out $GREETING; echo err >&2");
  options.log_path = dir->path() + "/log";
  options.environment = {"GREETING=hello"};
  EXPECT_EQ(RunChild(options).exit_code, 0);
  std::stringstream text;
  text << std::ifstream(options.log_path).rdbuf();
  EXPECT_EQ(text.str(), "out hello\nerr\n");
}

TEST(ChildProcessTest, StopAsksFirstAndKillsAfterTheGrace) {
  absl::Notification polite_gone, stubborn_gone;
  ChildExit polite_exit, stubborn_exit;
  ASSERT_OK_AND_ASSIGN(const auto pipe, ReadyPipe::Make());
  ASSERT_OK_AND_ASSIGN(const auto polite, ChildProcess::Start(Shell("read x < /dev/zero"), [&](ChildExit exit) {
                         polite_exit = exit;
                         polite_gone.Notify();
                       }));
  ChildOptions deaf = Shell("trap '' TERM; echo ready >&3; exec 3>&-; while :; do read x < /dev/zero; done");
  deaf.passed_fd = pipe->write_fd();
  ASSERT_OK_AND_ASSIGN(const auto stubborn, ChildProcess::Start(deaf, [&](ChildExit exit) {
                         stubborn_exit = exit;
                         stubborn_gone.Notify();
                       }));
  ASSERT_OK(pipe->Await(kAwaitLimit));
  polite->Stop(absl::Hours(1));
  stubborn->Stop(absl::Milliseconds(20));
  EXPECT_TRUE(polite_gone.WaitForNotificationWithTimeout(kAwaitLimit));
  EXPECT_EQ(polite_exit.signal, SIGTERM);
  EXPECT_TRUE(stubborn_gone.WaitForNotificationWithTimeout(kAwaitLimit));
  EXPECT_EQ(stubborn_exit.signal, SIGKILL);
}

TEST(ChildProcessTest, WhatAChildLeavesBehindDiesWithIt) {
  ASSERT_OK_AND_ASSIGN(const auto pipe, ReadyPipe::Make());
  // The grandchild holds descriptor 3 open; its death closes the pipe, which ends Await() without a line.
  ChildOptions options = Shell("(read x < /dev/zero) & exit 0");
  options.passed_fd = pipe->write_fd();
  EXPECT_EQ(RunChild(options).exit_code, 0);
  EXPECT_THAT(pipe->Await(kAwaitLimit).status(),
              StatusIs(absl::StatusCode::kUnavailable, "it ended before it was ready"));
}

// Descriptor 3 may be the one that is passed, or the one by which the child says that it cannot start.
TEST(ChildProcessTest, ADescriptorIsPassedWhateverItsNumberIs) {
  const int kept = fcntl(3, F_DUPFD_CLOEXEC, 100);  // what this process has there; -1: nothing
  for (const bool is_third : {true, false}) {
    close(3);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    int passed = ends[1];
    if (is_third && passed != 3) {
      const int other = ends[0] == 3 ? fcntl(3, F_DUPFD_CLOEXEC, 100) : ends[0];
      ASSERT_EQ(dup3(passed, 3, O_CLOEXEC), 3);
      close(passed);
      ends[0] = other;
      passed = 3;
    } else if (!is_third) {
      passed = fcntl(ends[1], F_DUPFD_CLOEXEC, 100);
      close(ends[1]);
      const int reading = fcntl(ends[0], F_DUPFD_CLOEXEC, 100);
      close(ends[0]);  // so that 3 is free
      ends[0] = reading;
    }
    ChildOptions options = Shell("echo here >&3");
    options.passed_fd = passed;
    EXPECT_EQ(RunChild(options).exit_code, 0);
    close(passed);
    char text[8] = {};
    EXPECT_EQ(read(ends[0], text, sizeof(text)), 5);
    EXPECT_STREQ(text, "here\n");
    options.executable = "/no/such/program";
    options.passed_fd = ends[0];
    EXPECT_EQ(ChildProcess::Start(options).status().code(), absl::StatusCode::kNotFound);
    close(ends[0]);
  }
  if (kept >= 0) dup2(kept, 3), close(kept);
}

TEST(ReadyPipeTest, ALineArrivesAndSilenceEndsAtTheLimit) {
  ASSERT_OK_AND_ASSIGN(const auto pipe, ReadyPipe::Make());
  ChildOptions options = Shell("echo 127.0.0.1:7000 >&3");
  options.passed_fd = pipe->write_fd();
  RunChild(options);
  EXPECT_EQ(*pipe->Await(kAwaitLimit), "127.0.0.1:7000");

  ASSERT_OK_AND_ASSIGN(const auto silent, ReadyPipe::Make());
  options.passed_fd = silent->write_fd();
  options.arguments = {"sh", "-c", "read x < /dev/zero"};
  ASSERT_OK_AND_ASSIGN(const auto child, ChildProcess::Start(options));
  EXPECT_THAT(silent->Await(absl::Milliseconds(10)).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "it was not ready within 10ms"));
}

}  // namespace
}  // namespace oneflow
