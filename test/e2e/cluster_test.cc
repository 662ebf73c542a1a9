// A cluster that stays: a scheduler and daemons as processes of their own, and the commands that work with them.
#include <linux/landlock.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "test/e2e/metrics_pipe.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/status_matchers.h"
#include "tools/control/process/ready_pipe.h"

namespace oneflow::e2e {
namespace {

constexpr absl::Duration kSoonReady = absl::Seconds(30);

class ClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    scheduler_ = Serve({"scheduler", "--address", "127.0.0.1:0", "--db", work_.Path("jobs.db")}, address_);
    for (const char* name : {"left", "right"}) AddDaemon(name);
  }
  void AddDaemon(const std::string& name, const std::vector<std::string>& more = {}) {
    std::string registered;
    daemons_.push_back(Serve(Join({"daemon", "--scheduler", address_, "--name", name, "--cpu-devices", "2", "--cores",
                                   "1", "--work-dir", work_.Path(name)},
                                  more),
                             registered));
  }
  // Starts a server and waits for the line that says that it serves.
  std::unique_ptr<RunningCommand> Serve(const std::vector<std::string>& arguments, std::string& line) {
    absl::StatusOr<std::unique_ptr<ReadyPipe>> pipe = ReadyPipe::Make();
    EXPECT_OK(pipe);
    std::unique_ptr<RunningCommand> server = work_.Start(Join(arguments, {"--ready-fd", "3"}), (*pipe)->write_fd());
    absl::StatusOr<std::string> ready = (*pipe)->Await(kSoonReady);
    EXPECT_OK(ready) << server->Errors();
    line = ready.value_or("");
    return server;
  }
  std::vector<std::string> At() const { return {"--scheduler", address_}; }
  std::string Jobs() const { return work_.Run(Join({"jobs"}, At())).out; }

  const Workspace work_;
  std::string address_;
  std::unique_ptr<RunningCommand> scheduler_;
  std::vector<std::unique_ptr<RunningCommand>> daemons_;
};

TEST_F(ClusterTest, AJobIsSubmittedListedLoggedAndCancelled) {
  const std::vector<std::string> endless = Join(OnMesh("dp: 4", 2), {"--set", "train.steps=100000000"});
  const Outcome submitted = work_.Run(Join(Join({"submit", work_.GptJob()}, endless), At()));
  EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
  EXPECT_EQ(submitted.out, "job 1\n");

  const Outcome next = work_.Run(Join({"submit", work_.ConvNetJob()}, At()));
  EXPECT_EQ(next.out, "job 2\n");
  EXPECT_THAT(Jobs(), ContainsRegex(" 2 +convnet +QUEUED +1 x 1")) << "the first holds all devices";
  EXPECT_THAT(Jobs(), ContainsRegex(" 1 +gpt +(STARTING|RUNNING) +2 x 2"));

  EXPECT_EQ(work_.Run(Join({"cancel", "1"}, At())).exit_code, 0);
  // A job that is followed waits its turn, so its end tells that the first has gone and the second was not forgotten.
  const Outcome followed = work_.Run(Join(Join({"run", work_.GptJob()}, OnMesh("dp: 4", 2)), At()));
  EXPECT_EQ(followed.exit_code, 0) << followed.err;
  EXPECT_THAT(Jobs(), ContainsRegex(" 1 +gpt +CANCELLED"));
  EXPECT_THAT(Jobs(), ContainsRegex(" 2 +convnet +FINISHED"));
  EXPECT_THAT(Jobs(), ContainsRegex(" 3 +gpt +FINISHED"));

  const Outcome logs = work_.Run(Join({"logs", "3"}, At()));
  EXPECT_EQ(logs.exit_code, 0) << logs.err;
  EXPECT_THAT(logs.out, HasSubstr("== worker 0 on daemon 'left'\n"));
  EXPECT_THAT(logs.out, HasSubstr("== worker 1 on daemon 'right'\n"));
}

TEST_F(ClusterTest, ADaemonRunsSeveralProcessesOfAJob) {
  const Outcome run = work_.Run(Join(Join({"run", work_.GptJob()}, OnMesh("dp: 4", 4)), At()));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(work_.Run(Join({"jobs", "describe", "1"}, At())).out, ContainsRegex("1 +left .*\n *2 +right "));
}

TEST_F(ClusterTest, QuestionsAboutUnknownJobsFail) {
  for (const char* command : {"logs", "cancel"}) {
    const Outcome ended = work_.Run(Join({command, "7"}, At()));
    EXPECT_EQ(ended.exit_code, 1) << command;
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(ended.err, absl::StrCat("oneflow: scheduler '", address_, "': there is no job 7\n"));
  }
}

TEST_F(ClusterTest, AJobThatTheClusterCannotHoldStaysInTheQueueAndSaysWhy) {
  ASSERT_EQ(work_.Run(Join(Join({"submit", work_.GptJob()}, OnMesh("dp: 8", 2)), At())).exit_code, 0);
  EXPECT_THAT(Jobs(), ContainsRegex(" 1 +gpt +QUEUED +2 x 4 .*4"));
}

TEST_F(ClusterTest, DaemonsThatKeepTheirWorkersToFoldersAreHostsOfTheirOwn) {
  if (syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1)
    GTEST_SKIP() << "this kernel has no Landlock";
  for (const char* name : {"left", "right"}) ASSERT_EQ(work_.Run(Join({"drain", name}, At())).exit_code, 0);
  for (const char* name : {"c1", "c2"}) AddDaemon(name, {"--allow-path", work_.Path("."), "--allow-path", ".."});
  const std::vector<std::string> job = Join(Join({"submit", work_.GptJob()}, OnMesh("dp: 4", 2)), At());
  ASSERT_EQ(work_.Run(job).exit_code, 0);
  EXPECT_THAT(Jobs(), ContainsRegex(" 1 +gpt +QUEUED .*no machine offers more than 2"));
  ASSERT_EQ(work_.Run(Join(job, {"--set", "cluster.hosts={count: 2 devices: 2}"})).exit_code, 0);
  const Outcome watched = work_.Run(Join({"watch", "2"}, At()));
  EXPECT_EQ(watched.exit_code, 0) << watched.err;
}

TEST_F(ClusterTest, AJobIsDescribedWatchedAndItsLogFollowed) {
  ASSERT_EQ(work_.Run(Join(Join({"submit", work_.GptJob()}, OnMesh("dp: 4", 2)), At())).exit_code, 0);
  const Outcome watched = work_.Run(Join({"watch", "1"}, At()));
  EXPECT_EQ(watched.exit_code, 0) << watched.err;
  EXPECT_THAT(watched.out, HasSubstr("step 20/20  loss "));
  const Outcome followed = work_.Run(Join({"logs", "1", "-f", "--rank", "2"}, At()));
  EXPECT_EQ(followed.exit_code, 0) << followed.err;
  EXPECT_EQ(followed.err + work_.Run(Join({"logs", "1", "--rank", "4"}, At())).err,
            absl::StrCat("oneflow: --rank is 4; job 1 has 4 ranks\n"));
  EXPECT_THAT(work_.Run(Join({"logs", "1", "--rank", "2"}, At())).out, HasSubstr("== worker 1 on daemon 'right'\n"));
  const Outcome described = work_.Run(Join({"jobs", "describe", "1"}, At()));
  EXPECT_EQ(described.exit_code, 0) << described.err;
  EXPECT_THAT(described.out, HasSubstr("job 1 'gpt': FINISHED, attempt 1 of 1\n"));
  EXPECT_THAT(described.out, ContainsRegex("1 +right +[0-9]+ +[0-9]+ +(gone|finished)\n"));
  EXPECT_THAT(described.out, HasSubstr("weight_decay: 0.1")) << "what it was submitted as";
  EXPECT_THAT(described.out, Not(HasSubstr("training ends")));
  EXPECT_THAT(work_.Run(Join({"jobs", "--json"}, At())).out, HasSubstr("\"state\":\"FINISHED\""));
  // One that ended before its last step says why.
  ASSERT_EQ(work_.Run(Join({"submit", work_.GptJob(), "--set", "train.stop.samples=640"}, At())).exit_code, 0);
  EXPECT_THAT(work_.Run(Join({"watch", "2"}, At())).out, HasSubstr("training ends after step 5: 640 tokens are done"));
  EXPECT_THAT(work_.Run(Join({"jobs", "describe", "2"}, At())).out,
              ContainsRegex("FINISHED, attempt 1 of 1\ntraining ends after step 5: .*\nsize: "));
}

TEST_F(ClusterTest, ADrainedNodeGetsNoJobsAndACancelledJobIsTriedAgain) {
  EXPECT_EQ(work_.Run(Join({"drain", "right"}, At())).exit_code, 0);
  EXPECT_THAT(work_.Run(Join({"nodes"}, At())).out,
              ContainsRegex("right +[^ ]+ +up, drained +0/2 +0/0 +1 +0\\.0/[0-9]+\\.[0-9]"));
  ASSERT_EQ(work_.Run(Join(Join({"submit", work_.GptJob()}, OnMesh("dp: 4", 2)), At())).exit_code, 0);
  EXPECT_THAT(work_.Run(Join({"jobs", "describe", "1"}, At())).out, ContainsRegex("waits: .* \\(drained: 1\\)\n"));
  EXPECT_EQ(work_.Run(Join({"cancel", "1"}, At())).exit_code, 0);
  EXPECT_EQ(work_.Run(Join({"drain", "right", "--undo"}, At())).exit_code, 0);
  EXPECT_EQ(work_.Run(Join({"retry", "1"}, At())).exit_code, 0);
  EXPECT_EQ(work_.Run(Join({"watch", "1"}, At())).exit_code, 0);
  EXPECT_THAT(Jobs(), ContainsRegex(" 1 +gpt +FINISHED +2 x 2 +1/1"));
  EXPECT_THAT(work_.Run(Join({"retry", "1"}, At())).err,
              HasSubstr("job 1 is FINISHED; one that FAILED or was CANCELLED"));
}

TEST_F(ClusterTest, AServerAskedToStopEndsInOrder) {
  for (std::unique_ptr<RunningCommand>& daemon : daemons_) {
    daemon->Signal(SIGTERM);
    EXPECT_EQ(daemon->Wait().exit_code, 0);
  }
  scheduler_->Signal(SIGTERM);
  EXPECT_EQ(scheduler_->Wait().exit_code, 0);
  EXPECT_THAT(work_.Leftovers(), IsEmpty());
}

TEST_F(ClusterTest, JobsOutliveTheirScheduler) {
  ASSERT_EQ(work_.Run(Join({"run", work_.GptJob()}, At())).exit_code, 0);
  scheduler_->Signal(SIGKILL);
  EXPECT_EQ(scheduler_->Wait().signal, SIGKILL);
  // The same address, so that the daemons find it again.
  std::string again;
  scheduler_ = Serve({"scheduler", "--address", address_, "--db", work_.Path("jobs.db")}, again);
  EXPECT_EQ(again, address_);
  EXPECT_THAT(Jobs(), ContainsRegex(" 1 +gpt +FINISHED"));
  const Outcome next = work_.Run(Join(Join({"run", work_.GptJob()}, OnMesh("dp: 4", 2)), At()));
  EXPECT_EQ(next.exit_code, 0) << next.err;
  EXPECT_THAT(Jobs(), ContainsRegex(" 2 +gpt +FINISHED"));
}

// A scheduler is killed while a job runs, and another takes its place: the job and the command that follows it notice
// nothing.
TEST_F(ClusterTest, ARunOutlivesItsScheduler) {
  const std::vector<std::string> job = Join(OnMesh("dp: 4", 2), {"--set", "train.steps=1500"});
  const std::vector<double> undisturbed = work_.Losses(work_.GptJob(), Join(job, At()));
  MetricsPipe metrics(work_.Path("metrics"));
  const std::unique_ptr<RunningCommand> run =
      work_.Start(Join(Join({"run", work_.GptJob(), "--metrics", work_.Path("metrics")}, job), At()));
  ASSERT_TRUE(metrics.AwaitSteps(20)) << run->Errors();
  scheduler_->Signal(SIGKILL);
  EXPECT_EQ(scheduler_->Wait().signal, SIGKILL);
  std::string again;
  scheduler_ = Serve({"scheduler", "--address", address_, "--db", work_.Path("jobs.db")}, again);
  EXPECT_THAT(Jobs(), ContainsRegex(" 2 +gpt +RUNNING"));
  ASSERT_TRUE(metrics.AwaitSteps(undisturbed.size())) << run->Errors();
  EXPECT_EQ(run->Wait().exit_code, 0) << run->Errors();
  EXPECT_THAT(Jobs(), ContainsRegex(" 2 +gpt +FINISHED"));
  EXPECT_EQ(metrics.losses(), undisturbed) << "each step once, whatever was on its way";
}

// A job of two processes on two of three daemons, with checkpoints, which may be tried three times.
class AttemptsTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    AddDaemon("spare");
  }

  std::vector<std::string> Saving(const std::string& folder) const {
    const std::string checkpoint = absl::StrCat("checkpoint={path: '", work_.Path(folder), "' every: 20}");
    return Join(
        Join({"run", work_.GptJob(), "--set", checkpoint, "--set", "restart.attempts=3"}, OnMesh("dp: 2 tp: 2", 2)),
        Join({"--set", "train.steps=150"}, At()));
  }

  // Runs it, kills something of daemon `left` in the middle, and expects the end that it would have had otherwise.
  void GoesOnAfter(const std::function<void()>& kill, const std::string& cause) {
    MetricsPipe metrics(work_.Path("metrics"));
    const std::unique_ptr<RunningCommand> run =
        work_.Start(Join(Saving("killed"), {"--metrics", work_.Path("metrics")}));
    ASSERT_TRUE(metrics.AwaitSteps(50)) << run->Errors();
    // A worker that is frozen ends no step; when all that were done have been told, the next is of the next attempt.
    std::vector<Process> workers = DescendantsOf(daemons_[0]->pid());
    for (const Process& worker : workers) worker.Kill(SIGSTOP);
    while (metrics.AwaitSteps(metrics.num_steps() + 1, absl::Milliseconds(500))) {
    }
    const absl::Time killed = absl::Now();
    kill();
    EXPECT_TRUE(metrics.AwaitSteps(metrics.num_steps() + 1)) << run->Errors();
    EXPECT_LE(absl::Now() - killed, absl::Seconds(10)) << "until the next step";
    const Outcome ended = run->Wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr(absl::StrCat("attempt 2 of 3 after: ", cause)));
    EXPECT_THAT(ended.out, HasSubstr("goes on from step "));
    for (Process& worker : workers) worker.Close();

    const Outcome whole = work_.Run(Saving("whole"));
    EXPECT_EQ(whole.exit_code, 0) << whole.err;
    const Outcome difference = work_.Run({"checkpoint", "diff", work_.Path("killed"), work_.Path("whole")});
    EXPECT_EQ(difference.exit_code, 0);
    EXPECT_EQ(difference.out + difference.err, "") << "the same to the bit";
  }
};

TEST_F(AttemptsTest, AJobWhoseWorkerIsKilledGoesOnFromItsLastCheckpoint) {
  const auto kill = [this] {
    for (Process& worker : DescendantsOf(daemons_[0]->pid())) {
      worker.Kill(SIGKILL);
      worker.Close();
    }
  };
  GoesOnAfter(kill, "worker 0 (pid ");
}

TEST_F(AttemptsTest, AJobWhoseDaemonIsKilledGoesOnOnAnother) {
  GoesOnAfter(
      [this] { daemons_[0]->Signal(SIGKILL); },
      absl::StrCat("daemon 'left' (pid ", daemons_[0]->pid(), ") was lost: its connection closed; it ran worker 0"));
  EXPECT_THAT(work_.Run(Join({"logs", "1"}, At())).out, HasSubstr("on daemon 'spare'\n"));
}

// Jobs on a cluster that becomes smaller and larger: they go on from a checkpoint, on another mesh.
class ElasticTest : public ClusterTest {
 protected:
  std::vector<std::string> Saving(const std::string& folder, int steps, const std::string& restart) const {
    return Join(
        Join({"run", work_.GptJob(), "--set", absl::StrCat("checkpoint={path: '", work_.Path(folder), "' every: 20}"),
              "--set", absl::StrCat("restart={attempts: 3 least_devices: 2 wait_seconds: 1 ", restart, "}")},
             OnMesh("dp: 4", 2)),
        Join({"--set", absl::StrCat("train.steps=", steps), "--metrics", work_.Path(folder + ".metrics")}, At()));
  }
  // The losses of a job that nothing happens to.
  std::vector<double> Undisturbed(int steps) {
    MetricsPipe metrics(work_.Path("whole.metrics"));
    const std::unique_ptr<RunningCommand> whole = work_.Start(Saving("whole", steps, ""));
    EXPECT_TRUE(metrics.AwaitSteps(steps)) << whole->Errors();
    EXPECT_EQ(whole->Wait().exit_code, 0) << whole->Errors();
    return metrics.losses();
  }
  // That the last attempt trained the steps behind its checkpoint as the undisturbed job did.
  static void ExpectGoneOn(const Outcome& ended, MetricsPipe& metrics, const std::vector<double>& want) {
    const int steps = static_cast<int>(want.size());
    int from = 0;
    const size_t said = ended.out.rfind("goes on from step ");
    ASSERT_NE(said, std::string::npos) << ended.out;
    ASSERT_TRUE(absl::SimpleAtoi(ended.out.substr(said + 18, ended.out.find(',', said) - said - 18), &from))
        << ended.out;
    ASSERT_GE(from, 20);
    while (metrics.AwaitSteps(metrics.num_steps() + 1, absl::Milliseconds(200))) continue;
    const std::vector<double> got = metrics.losses();
    ASSERT_GE(static_cast<int>(got.size()), steps - from);
    for (int step = from; step < steps; ++step) {
      const double loss = got[got.size() - (steps - step)];
      EXPECT_LE(std::abs(loss / want[step] - 1), step == from ? 1e-6 : 1e-3) << "step " << step + 1;
    }
  }
};

// Half of the cluster is lost for good.
TEST_F(ElasticTest, AJobThatMayGoesOnOnFewerDevices) {
  const std::vector<double> undisturbed = Undisturbed(150);
  MetricsPipe metrics(work_.Path("killed.metrics"));
  const std::unique_ptr<RunningCommand> run = work_.Start(Saving("killed", 150, ""));
  ASSERT_TRUE(metrics.AwaitSteps(50)) << run->Errors();
  daemons_[0]->Signal(SIGKILL);
  const Outcome ended = run->Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("goes on with dp=2 in 1 process: host 0 of the plan takes 4 cpu devices, 2 for each "
                                   "process; no machine offers more than 2"));
  EXPECT_THAT(Jobs(), ContainsRegex(" 2 +gpt +FINISHED +1 x 2 +2/3"));
  EXPECT_THAT(work_.Run(Join({"jobs", "describe", "2"}, At())).out, HasSubstr("layout: dp=2 in 1 process\n"));
  ExpectGoneOn(ended, metrics, undisturbed);
}

// Half of it is lost, and another daemon comes in its place.
TEST_F(ElasticTest, AndTakesThoseThatCome) {
  constexpr int kSteps = 600;
  const std::vector<double> undisturbed = Undisturbed(kSteps);
  MetricsPipe metrics(work_.Path("grown.metrics"));
  const std::unique_ptr<RunningCommand> run = work_.Start(Saving("grown", kSteps, "grow: true"));
  ASSERT_TRUE(metrics.AwaitSteps(50)) << run->Errors();
  daemons_[0]->Signal(SIGKILL);
  ASSERT_TRUE(metrics.AwaitSteps(80)) << run->Errors();
  AddDaemon("another");
  const Outcome ended = run->Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("there are devices for dp=4 in 2 processes: ends to go on with these"));
  EXPECT_THAT(Jobs(), ContainsRegex(" 2 +gpt +FINISHED +2 x 2 +3/4")) << "growing is no attempt less";
  ExpectGoneOn(ended, metrics, undisturbed);
}

// An embedded cluster has no daemon to spare.
TEST(EmbeddedAttemptsTest, ADaemonThatIsKilledIsReplaced) {
  const Workspace work;
  MetricsPipe metrics(work.Path("metrics"));
  const std::unique_ptr<RunningCommand> run =
      work.Start(Join({"run", work.GptJob(), "--metrics", work.Path("metrics"), "--set", "restart.attempts=2", "--set",
                       "train.steps=200"},
                      OnMesh("dp: 2", 2)));
  ASSERT_TRUE(metrics.AwaitSteps(20)) << run->Errors();
  for (Process& process : DescendantsOf(run->pid())) {
    if (absl::StrContains(process.command, "--name=d1 ")) process.Kill(SIGKILL);
    process.Close();
  }
  ASSERT_TRUE(metrics.AwaitSteps(220)) << "20, and then all: " << run->Errors();
  const Outcome ended = run->Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("attempt 2 of 2 after: daemon 'd1' (pid "));
  EXPECT_THAT(work.Leftovers(), IsEmpty());
}

}  // namespace
}  // namespace oneflow::e2e
