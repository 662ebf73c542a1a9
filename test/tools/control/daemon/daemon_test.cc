// A daemon between a real scheduler and workers that are shell scripts.
#include "tools/control/daemon/daemon.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/support/job_spec.h"
#include "tools/control/client.h"
#include "tools/control/process/ready_pipe.h"
#include "tools/control/process/temp_dir.h"
#include "tools/control/scheduler/service.h"

namespace oneflow {
namespace {

class DaemonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Make("daemon-test"));
    ASSERT_OK_AND_ASSIGN(scheduler_, SchedulerServer::Start({.db_path = dir_->path() + "/jobs.db"}));
    ASSERT_OK_AND_ASSIGN(client_, Client::Connect(scheduler_->address(), absl::Seconds(10)));
  }
  void TearDown() override {
    if (daemon_ != nullptr) daemon_->Stop();
    if (thread_.joinable()) thread_.join();
  }
  // A daemon with one device whose worker is this shell script.
  void StartDaemon(const std::string& script) {
    const std::string executable = dir_->path() + "/worker.sh";
    std::ofstream(executable) << "#!/bin/sh\n" << script << "\n";
    ASSERT_EQ(chmod(executable.c_str(), 0755), 0);
    RunDaemon(executable);
  }
  void RunDaemon(const std::string& executable) {
    DaemonOptions options{.scheduler = scheduler_->address(), .name = "d0", .host = "h", .memory = "m"};
    options.work_dir = dir_->path();
    options.executable = executable;
    ASSERT_OK_AND_ASSIGN(daemon_, Daemon::Start(options));
    thread_ = std::thread([this] { EXPECT_OK(daemon_->Run()); });
  }
  // Submits a job and returns how it ended.
  pb::StateChange RunJob() {
    const absl::StatusOr<int64_t> job = client_->Submit(EmptyJob(1, 1));
    EXPECT_OK(job);
    return Await(*job, pb::FINISHED);
  }
  // The first state of the job that is `least` or later.
  pb::StateChange Await(int64_t job, pb::JobState least) {
    pb::StateChange found;
    EXPECT_OK(client_->Watch(job, 0, [&](const pb::JobEvent& event) {
      if (!event.has_state()) return true;
      found = event.state();
      return found.state() < least;
    }));
    return found;
  }

  std::unique_ptr<TempDir> dir_;
  std::unique_ptr<SchedulerServer> scheduler_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Daemon> daemon_;
  std::thread thread_;
};

TEST_F(DaemonTest, AWorkerThatIsKilledFailsItsJob) {
  StartDaemon("kill -9 $$");
  const pb::StateChange end = RunJob();
  EXPECT_EQ(end.state(), pb::FAILED);
  EXPECT_THAT(end.message(),
              MatchesRegex("worker 0 \\(pid [0-9]+\\) on daemon 'd0' was killed by signal 9 \\(SIGKILL\\)"));
}

TEST_F(DaemonTest, AWorkerThatExitsLeavesItsLastWordsAndItsLog) {
  StartDaemon("echo \"$@\"; echo no luck >&2; exit 3");
  const pb::StateChange end = RunJob();
  EXPECT_THAT(end.message(),
              HasSubstr("exited with code 3 before it had finished; its last output:\nworker --daemon="));
  EXPECT_THAT(end.message(), AllOf(HasSubstr("--job=1 --attempt=1 --run="),
                                   HasSubstr(" --process=0 --processes=1 --peer-host=127.0.0.1\nno luck\n")));
  ASSERT_OK_AND_ASSIGN(const std::vector<pb::WorkerLog> logs, client_->Logs(1));
  ASSERT_THAT(logs, SizeIs(1));
  EXPECT_THAT(logs[0].text(), HasSubstr("no luck\n"));
}

TEST_F(DaemonTest, AProgramThatCannotBeStartedIsTheCause) {
  RunDaemon("/no/such/program");
  EXPECT_THAT(RunJob().message(), HasSubstr("cannot start '/no/such/program'"));
}

TEST_F(DaemonTest, CancelKillsTheWorkerAndFreesItsDevice) {
  ASSERT_OK_AND_ASSIGN(const auto pipe, ReadyPipe::Make());
  StartDaemon("read x < /dev/zero");
  ASSERT_OK_AND_ASSIGN(const int64_t first, client_->Submit(EmptyJob(1, 1)));
  Await(first, pb::STARTING);
  ASSERT_OK_AND_ASSIGN(const int64_t second, client_->Submit(EmptyJob(1, 1)));
  EXPECT_OK(client_->Cancel(first));
  EXPECT_EQ(Await(first, pb::FINISHED).state(), pb::CANCELLED);
  EXPECT_EQ(Await(second, pb::STARTING).state(), pb::STARTING) << "the first worker has exited";
  EXPECT_OK(client_->Cancel(second));
}

TEST_F(DaemonTest, ADaemonThatStopsTakesItsWorkersWithIt) {
  StartDaemon("read x < /dev/zero");
  ASSERT_OK_AND_ASSIGN(const int64_t job, client_->Submit(EmptyJob(1, 1)));
  Await(job, pb::STARTING);
  daemon_->Stop();
  thread_.join();
  EXPECT_THAT(
      Await(job, pb::FINISHED).message(),
      HasSubstr(absl::StrCat("daemon 'd0' (pid ", getpid(), ") was lost: its connection closed; it ran worker 0")));
}

TEST_F(DaemonTest, WorkersRunOnWhileTheSchedulerIsAway) {
  ASSERT_OK_AND_ASSIGN(const auto pipe, ReadyPipe::Make());
  const std::string fifo = dir_->path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  StartDaemon(absl::StrCat("read x < ", fifo, "; exit 7"));
  ASSERT_OK_AND_ASSIGN(const int64_t job, client_->Submit(EmptyJob(1, 1)));
  Await(job, pb::STARTING);
  std::ofstream worker(fifo);  // opens when the worker reads
  const std::string address = scheduler_->address();
  scheduler_.reset();
  worker << "go\n" << std::flush;  // it exits while nobody hears of it
  ASSERT_OK_AND_ASSIGN(scheduler_, SchedulerServer::Start({.address = address, .db_path = dir_->path() + "/jobs.db"}));
  EXPECT_THAT(Await(job, pb::FINISHED).message(), HasSubstr("exited with code 7 before it had finished"));
  ASSERT_OK_AND_ASSIGN(const int64_t next, client_->Submit(EmptyJob(1, 1)));
  EXPECT_EQ(Await(next, pb::STARTING).state(), pb::STARTING);
}

TEST_F(DaemonTest, AnotherAttemptStartsOnTheSameDaemon) {
  StartDaemon("kill -9 $$");
  pb::JobSpec spec = EmptyJob(1, 1);
  spec.mutable_restart()->set_attempts(20);  // as often as it takes for one to be started before the last is forgotten
  ASSERT_OK_AND_ASSIGN(const int64_t job, client_->Submit(spec));
  const pb::StateChange end = Await(job, pb::FINISHED);
  EXPECT_THAT(end.message(), HasSubstr("was killed by signal 9"));
  ASSERT_OK_AND_ASSIGN(const std::vector<pb::JobStatus> jobs, client_->List());
  EXPECT_EQ(jobs[0].attempt(), 20);
}

}  // namespace
}  // namespace oneflow
