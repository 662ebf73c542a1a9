// What users see when processes die: `oneflow run` as a whole, with a scheduler, two daemons and two workers, of which
// the test kills one. The promise: the job fails within three seconds, says who died and how, and leaves no process
// behind. That is real time, so no other test runs beside these.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "test/e2e/processes.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"
#include "tools/control/process/child.h"
#include "tools/control/process/temp_dir.h"

namespace oneflow {
namespace {

using e2e::DescendantsOf;
using e2e::Process;

constexpr absl::Duration kStart = absl::Seconds(60);   // to compile and start, on a busy machine
constexpr absl::Duration kPromise = absl::Seconds(3);  // from a death to the report of it
constexpr absl::Duration kStop = absl::Seconds(2);     // the command stops what it started before it says why
constexpr absl::Duration kGone = absl::Seconds(10);    // from the end of the run to the end of all it started

class FaultsTest : public ::testing::Test {
 protected:
  // Starts a job of two processes that would train for days, and returns when it trains.
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Make("faults-test"));
    std::ofstream text(dir_->path() + "/text");
    for (int i = 0; i < 5000; ++i) text << "line " << i << "\n";
    text.close();
    const std::string config = dir_->path() + "/job.pbtxt";
    std::ofstream(config) << "model { gpt { layers: 1 width: 16 heads: 2 context: 16 } }\n"
                          << "data { text { path: '" << dir_->path() << "/text' } }\n"
                          << "mesh { dp: 2 } cluster { processes: 2 devices_per_process: 1 cores_per_process: 1 }\n"
                          << "train { steps: 100000000 batch_size: 4 optimizer { sgd {} }\n"
                          << "        schedule { learning_rate: 0.001 } }\n";
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    output_ = ends[0];
    ChildOptions options;
    options.executable = "/bin/sh";
    options.arguments = {"sh", "-c", absl::StrCat("exec '", BinaryDir(), "/oneflow' run '", config, "' >&3 2>&3")};
    options.environment = {absl::StrCat("TMPDIR=", dir_->path())};
    options.passed_fd = ends[1];
    absl::StatusOr<std::unique_ptr<ChildProcess>> run =
        ChildProcess::Start(options, [this](ChildExit exit) { exit_ = exit; });
    close(ends[1]);
    ASSERT_OK(run);
    run_ = *std::move(run);
    ASSERT_TRUE(ReadUntil("step ", kStart)) << text_;
    processes_ = DescendantsOf(run_->pid());
    ASSERT_THAT(processes_, SizeIs(5)) << "scheduler, two daemons, two workers";
  }
  void TearDown() override {
    run_.reset();
    for (Process& process : processes_) {
      EXPECT_TRUE(process.GoneWithin(kGone)) << process.pid << ": " << process.command << "\n" << text_;
      process.Close();
    }
    if (output_ >= 0) close(output_);
  }

  // Reads what the run writes until it contains `wanted`; false if it does not come in time or the run ends before.
  bool ReadUntil(const std::string& wanted, absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    while (!absl::StrContains(text_, wanted)) {
      pollfd polled{output_, POLLIN, 0};
      const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
      if (left <= 0 || poll(&polled, 1, static_cast<int>(left)) <= 0) return false;
      char text[4096];
      const ssize_t got = read(output_, text, sizeof(text));
      if (got <= 0) return false;
      text_.append(text, got);
    }
    return true;
  }
  const Process& Find(const std::string& command) {
    for (const Process& process : processes_) {
      if (absl::StrContains(process.command, command)) return process;
    }
    ADD_FAILURE() << "no process '" << command << "'";
    return processes_.front();
  }
  void ExpectFailure(const std::string& message, absl::Duration limit = kPromise) {
    EXPECT_TRUE(ReadUntil(message, limit)) << "expected: " << message << "\nwritten: " << text_;
    EXPECT_TRUE(run_->WaitForExit(kGone));
    EXPECT_NE(exit_.exit_code, 0);
    EXPECT_EQ(exit_.signal, 0);
  }

  std::unique_ptr<TempDir> dir_;
  int output_ = -1;
  std::string text_;
  ChildExit exit_;
  std::unique_ptr<ChildProcess> run_;
  std::vector<Process> processes_;
};

// What is sent to one process of the job, and what the run says of it: "$0" stands for its pid.
struct Fault {
  const char* name;
  const char* process;  // a part of its command line
  int signal;
  const char* message;
  absl::Duration limit = kPromise;
};

class ProcessFaultsTest : public FaultsTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(ProcessFaultsTest, FailTheJobWithWhoAndHow) {
  const Process& process = Find(GetParam().process);
  process.Kill(GetParam().signal);
  ExpectFailure(absl::Substitute(GetParam().message, process.pid), GetParam().limit);
}

INSTANTIATE_TEST_SUITE_P(
    All, ProcessFaultsTest,
    ::testing::Values(Fault{"KilledWorker", "--process=1 ", SIGKILL,
                            "worker 1 (pid $0) on daemon 'd1' was killed by signal 9 (SIGKILL)"},
                      Fault{"KilledDaemon", "--name=d1 ", SIGKILL,
                            "daemon 'd1' (pid $0) was lost: its connection closed; it ran worker 1 of job 1"},
                      Fault{"FrozenDaemon", "--name=d0 ", SIGSTOP, "daemon 'd0' (pid $0) was lost: no heartbeat for ",
                            kPromise + kStop},
                      Fault{"FrozenWorker", "--process=1 ", SIGSTOP,
                            "the process (pid $0) has said nothing for 2s: it is frozen, and was killed"},
                      Fault{"KilledScheduler", " scheduler ", SIGKILL, "scheduler '127.0.0.1:"}),
    [](const ::testing::TestParamInfo<Fault>& info) { return info.param.name; });

TEST_F(FaultsTest, AnInterruptCancelsTheJob) {
  kill(run_->pid(), SIGINT);
  ExpectFailure("the job was cancelled");
}

TEST_F(FaultsTest, AKilledRunTakesEverythingWithIt) {
  kill(run_->pid(), SIGKILL);
  EXPECT_TRUE(run_->WaitForExit(kGone));
  EXPECT_EQ(exit_.signal, SIGKILL);  // TearDown expects that nothing is left
}

}  // namespace
}  // namespace oneflow
