// Hours of bad luck in minutes: jobs run on a cluster whose processes are killed at random, one or two at once, and
// everyone must end as if it had run alone. Not part of every test run, since it takes 3 s for each death:
//
//   ONEFLOW_SOAK_KILLS=200 [ONEFLOW_SOAK_SEED=7] e2e_test --gtest_filter=SoakTest.*
//
// And a long run of a small job, whose processes must be as large at its end as after a tenth of it:
//
//   ONEFLOW_SOAK_STEPS=10000 e2e_test --gtest_filter=SoakTest.*
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"
#include "tools/control/client.h"
#include "tools/control/process/ready_pipe.h"

namespace oneflow::e2e {
namespace {

constexpr int kDaemons = 4;               // of two devices each
constexpr int kAtOnce = 2;                // jobs, of four devices
constexpr int kPairOf = 5;                // every fifth time two are killed at once
constexpr double kGapS = 3;               // between deaths, on the average
constexpr int64_t kStoreBytes = 1 << 20;  // whatever the number of steps
constexpr int64_t kLogBytes = 5 << 20;    // at most, before what it says is in the store
constexpr absl::Duration kReady = absl::Seconds(60);
constexpr absl::Duration kBack = absl::Seconds(10);    // from a death to the next step of what it disturbed
constexpr absl::Duration kLongest = absl::Minutes(3);  // of a job that nobody disturbs any more

uint32_t FromEnvironment(const char* name, uint32_t otherwise) {
  const char* const text = std::getenv(name);
  uint32_t value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &value)) ADD_FAILURE() << name << " is '" << text << "'";
  return value;
}

class SoakTest : public ::testing::Test {
 protected:
  // A process that is started again with the same words when it has been killed.
  struct Server {
    std::vector<std::string> words;
    std::unique_ptr<RunningCommand> command;
  };
  struct Kind {
    const char* name;
    std::vector<std::string> job;
  };
  struct Submitted {
    const Kind* kind;
    std::string folder;
  };

  void Begin() {
    const std::string wide = SourceDir() + "/tools/examples/wide_deep.pbtxt";
    kinds_ = {Kind{"gpt", Join({work_.GptJob(), "--set", "train.steps=1500"}, OnMesh("dp: 2 tp: 2", 2))},
              Kind{"convnet", Join({work_.ConvNetJob(), "--set", "train.steps=1500"}, OnMesh("dp: 4", 2))},
              Kind{"wide",
                   {wide, "--set", "data.clicks.vocabulary=5000", "--set", "train.steps=600", "--set",
                    "evaluate.every=200"}}};
    for (const Kind& kind : kinds_) {
      const Outcome whole = work_.Run(Join(Join({"run"}, kind.job), Saving(Whole(kind))));
      ASSERT_EQ(whole.exit_code, 0) << whole.err;
    }
    ServeCluster(kDaemons);
  }
  void ServeCluster(int daemons) {
    scheduler_.words = {"scheduler", "--address", "127.0.0.1:0", "--db", work_.Path("jobs.db")};
    address_ = Serve(scheduler_);
    scheduler_.words[2] = address_;  // where daemons find it again
    for (int i = 0; i < daemons; ++i) {
      const std::string name = absl::StrCat("d", i);
      daemons_[i].words = {"daemon",  "--scheduler", address_,     "--name",        name, "--cpu-devices", "2",
                           "--cores", "1",           "--work-dir", work_.Path(name)};
      Serve(daemons_[i]);
    }
  }
  std::vector<std::string> Saving(const std::string& folder) const {
    return {"--set", absl::StrCat("checkpoint={path: '", folder, "' every: 20}"), "--set", "restart.attempts=1000"};
  }
  std::string Whole(const Kind& kind) const { return work_.Path(absl::StrCat("whole-", kind.name)); }

  // What it says when it is ready.
  std::string Serve(Server& server) {
    absl::StatusOr<std::unique_ptr<ReadyPipe>> pipe = ReadyPipe::Make();
    EXPECT_OK(pipe);
    server.command = work_.Start(Join(server.words, {"--ready-fd", "3"}), (*pipe)->write_fd());
    absl::StatusOr<std::string> ready = (*pipe)->Await(kReady);
    EXPECT_OK(ready) << server.command->Errors();
    return ready.value_or("");
  }
  int Random(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }

  // What was killed; empty if there was nothing of this sort.
  std::string KillWorker() {
    std::vector<Process> workers;
    for (const Server& daemon : daemons_) {
      for (Process& process : DescendantsOf(daemon.command->pid())) {
        if (absl::StrContains(process.command, " worker ")) {
          workers.push_back(process);
        } else {
          process.Close();
        }
      }
    }
    if (!workers.empty()) workers[Random(static_cast<int>(workers.size()))].Kill(SIGKILL);
    for (Process& worker : workers) worker.Close();
    return workers.empty() ? "" : "worker";
  }
  void KillSome() {
    const int victims = Random(kPairOf) == 0 ? 2 : 1;
    std::vector<Server*> dead;
    for (int i = 0; i < victims; ++i) {
      const int sort = Random(3);
      if (sort == 0 && !KillWorker().empty()) ++kills_["workers"];
      if (sort == 1) dead.push_back(&daemons_[Random(kDaemons)]);
      if (sort == 2) dead.push_back(&scheduler_);
    }
    if (dead.size() == 2 && dead[0] == dead[1]) dead.pop_back();
    // Daemons are ready when a scheduler knows them.
    std::stable_partition(dead.begin(), dead.end(), [this](const Server* server) { return server == &scheduler_; });
    killed_.push_back(absl::Now());
    for (Server* server : dead) server->command->Signal(SIGKILL);
    for (Server* server : dead) EXPECT_EQ(server->command->Wait().signal, SIGKILL);
    if (!dead.empty()) absl::SleepFor(absl::Milliseconds(Random(1000)));  // machines do not come back at once
    for (Server* server : dead) {
      ++kills_[server == &scheduler_ ? "schedulers" : "daemons"];
      Serve(*server);
    }
  }
  int NumKills() const {
    int sum = 0;
    for (const auto& [sort, count] : kills_) sum += count;
    return sum;
  }

  void Submit() {
    const Kind& kind = kinds_[num_submitted_ % kinds_.size()];
    const std::string folder = work_.Path(absl::StrCat("job-", ++num_submitted_));
    const Outcome submitted =
        work_.Run(Join(Join(Join({"submit"}, kind.job), Saving(folder)), {"--scheduler", address_}));
    EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
    int64_t job = 0;
    EXPECT_TRUE(absl::SimpleAtoi(absl::StripPrefix(absl::StripSuffix(submitted.out, "\n"), "job "), &job));
    jobs_[job] = {&kind, folder};
  }
  // Takes out jobs that have ended, and holds what they saved last against what they would have saved alone.
  void Look() {
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(address_, kReady);
    ASSERT_OK(client);
    ASSERT_OK_AND_ASSIGN(const std::vector<pb::JobStatus> list, (*client)->List());
    ASSERT_EQ(list.size(), static_cast<size_t>(num_submitted_)) << "a job is lost";
    for (const pb::JobStatus& status : list) {
      const auto found = jobs_.find(status.job());
      if (found == jobs_.end() || status.state() < pb::FINISHED) continue;
      EXPECT_EQ(status.state(), pb::FINISHED) << "job " << status.job() << ": " << status.message();
      attempts_ += status.attempt();
      MeasureWaits(**client, status.job());
      const Outcome difference = work_.Run({"checkpoint", "diff", found->second.folder, Whole(*found->second.kind)});
      EXPECT_EQ(difference.exit_code, 0) << difference.err;
      EXPECT_EQ(difference.out, "") << "job " << status.job() << " (" << found->second.kind->name << ")";
      std::filesystem::remove_all(found->second.folder);
      jobs_.erase(found);
    }
  }

  // How long the job took no step because it began again: from the last death before that on.
  void MeasureWaits(Client& client, int64_t job) {
    bool trained = false, again = false;
    ASSERT_OK(client.Watch(job, 0, [&](const pb::JobEvent& event) {
      again |= trained && event.has_state();
      if (!event.has_fetched() || event.fetched().plan() != "train") return true;
      const absl::Time now = absl::FromUnixMicros(event.time_us());
      const auto death = std::upper_bound(killed_.begin(), killed_.end(), now);
      if (again && death != killed_.begin()) waits_.push_back(now - *(death - 1));
      trained = true, again = false;
      return true;
    }));
  }

  // What the cluster has in memory and on disk.
  struct Sizes {
    std::map<std::string, int64_t> resident;  // by process
    int64_t store = 0, log = 0;               // the log begins anew when it has some bytes
  };
  Sizes Measure() {
    Sizes sizes;
    const auto take = [&](const std::string& who, Process process) {
      sizes.resident[who] = process.ResidentBytes();
      process.Close();
    };
    take("the scheduler", {.pid = scheduler_.command->pid()});
    take("the daemon", {.pid = daemons_[0].command->pid()});
    int workers = 0;
    for (Process& process : DescendantsOf(daemons_[0].command->pid())) {
      take(absl::StrCat("process ", ++workers, " below it"), process);
    }
    for (const auto& file : std::filesystem::directory_iterator(work_.Path("."))) {
      const std::string name = file.path().filename().string();
      if (absl::StartsWith(name, "jobs.db")) (name == "jobs.db" ? sizes.store : sizes.log) += file.file_size();
    }
    return sizes;
  }

  const Workspace work_;
  std::vector<Kind> kinds_;
  std::string address_;
  Server scheduler_;
  std::array<Server, kDaemons> daemons_;
  std::mt19937 random_;
  std::map<std::string, int> kills_;
  std::vector<absl::Time> killed_;     // when
  std::vector<absl::Duration> waits_;  // of jobs that began again: from the death to their next step
  std::map<int64_t, Submitted> jobs_;  // that have not ended
  int num_submitted_ = 0, attempts_ = 0;
};

TEST_F(SoakTest, EveryJobEndsAsIfItHadRunAlone) {
  const uint32_t wanted = FromEnvironment("ONEFLOW_SOAK_KILLS", 0);
  if (wanted == 0) GTEST_SKIP() << "ONEFLOW_SOAK_KILLS says how many processes are to be killed";
  const uint32_t seed = FromEnvironment("ONEFLOW_SOAK_SEED", std::random_device()());
  random_.seed(seed);
  std::cout << "ONEFLOW_SOAK_SEED=" << seed << std::endl;
  ASSERT_NO_FATAL_FAILURE(Begin());
  std::exponential_distribution<double> gap(1 / kGapS);
  while (NumKills() < static_cast<int>(wanted) && !HasFailure()) {
    while (jobs_.size() < kAtOnce) Submit();
    absl::SleepFor(absl::Seconds(gap(random_)));
    KillSome();
    ASSERT_NO_FATAL_FAILURE(Look());
  }
  const absl::Time deadline = absl::Now() + kLongest;
  while (!jobs_.empty() && absl::Now() < deadline && !HasFailure()) {
    absl::SleepFor(absl::Milliseconds(500));
    ASSERT_NO_FATAL_FAILURE(Look());
  }
  EXPECT_TRUE(jobs_.empty()) << jobs_.size() << " jobs have not ended";
  std::cout << num_submitted_ << " jobs in " << attempts_ << " attempts; killed:";
  for (const auto& [sort, count] : kills_) std::cout << " " << count << " " << sort;
  std::sort(waits_.begin(), waits_.end());
  ASSERT_FALSE(waits_.empty());
  std::cout << "; " << waits_.size() << " times a job began again: from the death to its next step "
            << waits_[waits_.size() / 2] << ", at most " << waits_.back() << std::endl;
  EXPECT_LE(waits_.back(), kBack);
}

TEST_F(SoakTest, ALongJobTakesNoMoreAtItsEnd) {
  const uint32_t steps = FromEnvironment("ONEFLOW_SOAK_STEPS", 0);
  if (steps == 0) GTEST_SKIP() << "ONEFLOW_SOAK_STEPS says how many steps the job is to take";
  ServeCluster(1);
  const Outcome submitted = work_.Run(Join(Join({"submit", work_.GptJob()}, OnMesh("dp: 2", 2)),
                                           {"--set", absl::StrCat("train.steps=", steps), "--scheduler", address_}));
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> client, Client::Connect(address_, kReady));
  Sizes early, late;
  int64_t values = 0;
  ASSERT_OK(client->Watch(1, 0, [&](const pb::JobEvent& event) {
    if (!event.has_fetched()) return true;
    ++values;
    if (event.fetched().step() == steps / 10) early = Measure();
    if (event.fetched().step() == steps - steps / 50) late = Measure();
    return true;
  }));
  ASSERT_EQ(late.resident.size(), early.resident.size());
  ASSERT_GE(early.resident.size(), 4u) << "scheduler, daemon and two workers";
  for (const auto& [who, bytes] : early.resident) {
    std::cout << who << ": " << bytes << " bytes after a tenth, " << late.resident[who] << " at the end" << std::endl;
    EXPECT_LT(late.resident[who], bytes + bytes / 100) << who;
  }
  std::cout << "the store: " << early.store << " bytes, then " << late.store << ", for " << values
            << " values; its log: " << late.log << " bytes" << std::endl;
  EXPECT_LT(late.store, kStoreBytes) << "curves are thinned";
  EXPECT_LT(late.log, kLogBytes);
}

}  // namespace
}  // namespace oneflow::e2e
