// What users see when a worker on CUDA devices dies while its peers wait for it in collectives: the job fails within
// three seconds, says who died and how, and leaves nothing behind.
#include <signal.h>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "test/cuda_jobs/devices.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

constexpr absl::Duration kStart = absl::Seconds(60);   // to compile and start, on a busy machine
constexpr absl::Duration kPromise = absl::Seconds(3);  // from a death to the end of the command
constexpr absl::Duration kGone = absl::Seconds(10);

class CudaFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::LacksCudaDevices(2); !why.empty()) GTEST_SKIP() << why;
  }

  // A job of two processes that would train for days, once it trains.
  void StartJob() {
    const std::string metrics = work_.Path(absl::StrCat("metrics.", ++starts_));
    run_ = work_.Start(Join(
        {"run", work_.GptJob(), "--metrics", metrics, "--set", "cluster.device=cuda", "--set", "train.steps=100000000"},
        OnMesh("dp: 2", 2)));
    const absl::Time deadline = absl::Now() + kStart;
    while (!absl::StrContains(ReadFile(metrics), "\"step\": 2")) {
      ASSERT_LT(absl::Now(), deadline) << run_->Errors();
      absl::SleepFor(absl::Milliseconds(20));
    }
    processes_ = DescendantsOf(run_->pid());
    ASSERT_THAT(processes_, SizeIs(5)) << "scheduler, two daemons, two workers";
  }
  void TearDown() override {
    for (Process& process : processes_) {
      EXPECT_TRUE(process.GoneWithin(kGone)) << process.pid << ": " << process.command;
      process.Close();
    }
    processes_.clear();
  }
  const Process& Worker(int process) const {
    const std::string argument = absl::StrCat("--process=", process, " ");
    for (const Process& it : processes_) {
      if (absl::StrContains(it.command, argument)) return it;
    }
    ADD_FAILURE() << "no worker " << process;
    return processes_.front();
  }

  const Workspace work_;
  int starts_ = 0;
  std::unique_ptr<RunningCommand> run_;
  std::vector<Process> processes_;
};

TEST_F(CudaFaultsTest, AKilledWorkerFailsTheJobWithWhoAndHow) {
  for (const int killed : {0, 1}) {
    ASSERT_NO_FATAL_FAILURE(StartJob());
    const int pid = Worker(killed).pid;
    const absl::Time before = absl::Now();
    Worker(killed).Kill(SIGKILL);
    const Outcome ended = run_->Wait();
    EXPECT_LT(absl::Now() - before, kPromise);
    EXPECT_NE(ended.exit_code, 0);
    EXPECT_THAT(ended.err, HasSubstr(absl::StrCat("worker ", killed, " (pid ", pid, ") on daemon 'd", killed,
                                                  "' was killed by signal 9 (SIGKILL)")));
    TearDown();
    EXPECT_THAT(work_.Leftovers(), IsEmpty());
  }
}

TEST_F(CudaFaultsTest, AnInterruptedJobLeavesNothing) {
  ASSERT_NO_FATAL_FAILURE(StartJob());
  const absl::Time before = absl::Now();
  run_->Signal(SIGINT);
  run_->Wait();
  EXPECT_LT(absl::Now() - before, kPromise);
  TearDown();
  EXPECT_THAT(work_.Leftovers(), IsEmpty());
}

}  // namespace
}  // namespace oneflow::e2e
