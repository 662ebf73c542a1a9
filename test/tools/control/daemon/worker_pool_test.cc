// Workers are shell scripts; the test plays their sessions.
#include "tools/control/daemon/worker_pool.h"

#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/support/job_spec.h"
#include "tools/control/process/temp_dir.h"

namespace oneflow {
namespace {

constexpr absl::Duration kLongestWait = absl::Seconds(10);  // of waits that end at once when all is well

class WorkerPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Make("pool-test"));
    WorkerPoolOptions options;
    options.work_dir = dir_->path();
    options.executable = dir_->path() + "/worker.sh";
    // It writes its number, and waits until the test removes its reason to live.
    std::ofstream(options.executable) << "#!/bin/sh\necho $$ > " << dir_->path() << "/pid\n"
                                      << "read x < " << dir_->path() << "/fifo\nexit 5\n";
    ASSERT_EQ(chmod(options.executable.c_str(), 0755), 0);
    ASSERT_EQ(mkfifo((dir_->path() + "/fifo").c_str(), 0600), 0);
    options_ = options;
    MakePool(options.silence);
  }
  void MakePool(absl::Duration silence) {
    options_.silence = silence;
    pool_ = std::make_unique<WorkerPool>(options_, [this](pb::FromDaemon report) { reports_.Push(std::move(report)); });
  }
  pb::WorkerHello StartOne() {
    pb::StartWorker start;
    start.set_job(7);
    start.set_attempt(2);
    *start.mutable_spec() = EmptyJob(1, 1);
    pool_->Start(start);
    std::ofstream fifo(dir_->path() + "/fifo");  // opens when the worker reads: it has written its number
    pb::WorkerHello hello;
    hello.set_job(7);
    hello.set_attempt(2);
    int pid = 0;
    std::ifstream(dir_->path() + "/pid") >> pid;
    hello.set_pid(pid);
    alive_ = std::move(fifo);
    return hello;
  }

  std::unique_ptr<TempDir> dir_;
  WorkerPoolOptions options_;
  Outbox<pb::FromDaemon> reports_;
  std::ofstream alive_;  // the worker exits when it closes
  std::unique_ptr<WorkerPool> pool_;
};

TEST_F(WorkerPoolTest, ItsAssignmentIsTheFirstThatAWorkerIsTold) {
  const pb::WorkerHello hello = StartOne();
  pb::ToWorker start;
  start.mutable_start()->add_peer_addresses("a:0");
  pool_->Tell(7, 1, 0, start);  // of another attempt: not for it
  pool_->Tell(7, 2, 0, start);
  ASSERT_OK_AND_ASSIGN(const auto messages, pool_->Attach(hello));
  const std::optional<pb::ToWorker> assignment = messages->Pop(kLongestWait);
  EXPECT_EQ(assignment->assignment().attempt(), 2);
  EXPECT_EQ(assignment->assignment().spec().name(), "empty");
  EXPECT_TRUE(messages->Pop(kLongestWait)->has_start());
  EXPECT_FALSE(messages->Pop(absl::ZeroDuration()).has_value());
  pool_->Detach(7, 0);
  EXPECT_TRUE(messages->done());
}

TEST_F(WorkerPoolTest, OnlyTheProcessThatWasStartedMayAttachAndOnlyOnce) {
  const pb::WorkerHello hello = StartOne();
  pb::WorkerHello other = hello;
  other.set_pid(1);
  EXPECT_THAT(pool_->Attach(other).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("pid 1 says it is")));
  other = hello;
  other.set_attempt(1);
  EXPECT_THAT(pool_->Attach(other).status(),
              StatusIs(absl::StatusCode::kNotFound, "no worker 0 of job 7, attempt 1, was started here"));
  EXPECT_OK(pool_->Attach(hello));
  EXPECT_THAT(pool_->Attach(hello).status(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("says it is")));
  pool_->Detach(7, 0);
}

TEST_F(WorkerPoolTest, AnExitIsReportedAfterTheWorkersLastWords) {
  const pb::WorkerHello hello = StartOne();
  ASSERT_OK_AND_ASSIGN(const auto messages, pool_->Attach(hello));
  alive_.close();
  // The pool closes the messages when the worker is dead; its session is still open then, as far as we know.
  while (!messages->done()) messages->Pop(kLongestWait);
  pb::FromDaemon last_words;
  last_words.mutable_report()->mutable_message()->mutable_failed()->set_message("alas");
  reports_.Push(last_words);
  pool_->Detach(7, 0);
  EXPECT_TRUE(reports_.Pop(kLongestWait)->has_report());
  const std::optional<pb::FromDaemon> exited = reports_.Pop(kLongestWait);
  ASSERT_TRUE(exited && exited->has_exited());
  EXPECT_EQ(exited->exited().exit_code(), 5);
  EXPECT_EQ(exited->exited().pid(), hello.pid());
}

TEST_F(WorkerPoolTest, StoppingAJobKillsItsWorkersOnly) {
  StartOne();
  pool_->StopJob(8, 2);
  pool_->StopJob(7, 1);
  EXPECT_FALSE(reports_.Pop(absl::Milliseconds(100)).has_value()) << "it is of another job, and of another attempt";
  pool_->StopJob(7, 2);
  const std::optional<pb::FromDaemon> exited = reports_.Pop(kLongestWait);
  ASSERT_TRUE(exited && exited->has_exited());
  EXPECT_EQ(exited->exited().signal(), SIGTERM);
}

TEST_F(WorkerPoolTest, AWorkerThatFallsSilentIsKilledAndNamed) {
  MakePool(absl::Milliseconds(300));
  const pb::WorkerHello hello = StartOne();
  ASSERT_OK(pool_->Attach(hello).status());
  const std::optional<pb::FromDaemon> frozen = reports_.Pop(kLongestWait);
  ASSERT_TRUE(frozen.has_value());
  EXPECT_THAT(frozen->report().message().failed().message(),
              HasSubstr(absl::StrCat("(pid ", hello.pid(), ") has said nothing for 300ms")));
  pool_->Detach(7, 0);
  const std::optional<pb::FromDaemon> exited = reports_.Pop(kLongestWait);
  ASSERT_TRUE(exited.has_value());
  EXPECT_TRUE(exited->exited().signal() == SIGTERM || exited->exited().signal() == SIGKILL)
      << "it is not really frozen";
}

// A worker that writes without end fills no disk.
TEST_F(WorkerPoolTest, ALogThatGrowsLosesItsMiddle) {
  options_.log_bytes = 10'000;
  std::ofstream(options_.executable) << "#!/bin/sh\necho first\nyes line | head -c 1000000\necho $$ > " << dir_->path()
                                     << "/pid\nread x < " << dir_->path() << "/fifo\nexit 5\n";
  MakePool(options_.silence);
  StartOne();
  LogPart log = pool_->Log(7, 0, 0);
  while (log.text.size() > 10'000 || !absl::StrContains(log.text, "cut out here")) log = pool_->Log(7, 0, 0);
  EXPECT_EQ(log.text.substr(0, 11), "first\nline\n");
  EXPECT_THAT(log.text, HasSubstr("bytes were cut out here: a log may have 10000)\nline\n"));
}

TEST_F(WorkerPoolTest, ALogIsOfOneJobAndGoesWithIt) {
  const auto path = [this](const std::string& name) { return absl::StrCat(dir_->path(), "/job-", name, ".log"); };
  for (const char* name : {"8-worker-0", "8-worker-1", "88-worker-0"})
    std::ofstream(path(name)) << "of an earlier store\n";
  pb::StartWorker start;
  start.set_job(8);
  start.set_attempt(1);
  *start.mutable_spec() = EmptyJob(1, 1);
  pool_->Start(start);
  std::ofstream fifo(dir_->path() + "/fifo");
  EXPECT_EQ(pool_->Log(8, 0, 0).text, "") << "the first attempt begins it anew";
  fifo.close();
  while (!reports_.Pop(kLongestWait)->has_exited()) continue;
  pool_->DeleteLogs(8);
  EXPECT_FALSE(std::filesystem::exists(path("8-worker-0")));
  EXPECT_FALSE(std::filesystem::exists(path("8-worker-1")));
  EXPECT_TRUE(std::filesystem::exists(path("88-worker-0")));
}

}  // namespace
}  // namespace oneflow
