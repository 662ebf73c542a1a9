// The scheduler behind real gRPC on loopback, with a daemon that is played by the test.
#include "tools/control/scheduler/service.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "compiler/code_choices.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/plan_reader.h"
#include "gmock/gmock.h"
#include "proto/control.grpc.pb.h"
#include "test/support/status_matchers.h"
#include "test/tools/support/fake_daemon.h"
#include "test/tools/support/job_spec.h"
#include "tools/control/client.h"
#include "tools/control/process/temp_dir.h"
#include "tools/control/rpc/rpc.h"

namespace oneflow {
namespace {

class SchedulerServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Make("scheduler-test"));
    Start();
  }
  void Start() {
    SchedulerOptions options{.db_path = dir_->path() + "/jobs.db"};
    options.keep = keep_;
    options.limits.lease = absl::Hours(1);  // the daemon of this test sends no heartbeats
    ASSERT_OK_AND_ASSIGN(server_, SchedulerServer::Start(options));
    ASSERT_OK_AND_ASSIGN(client_, Client::Connect(server_->address(), absl::Seconds(10)));
  }
  // All events of a job as text, until it has ended.
  std::vector<std::string> WatchAll(int64_t job, int64_t from = 0) {
    std::vector<std::string> texts;
    EXPECT_OK(client_->Watch(job, from, [&texts](const pb::JobEvent& event) {
      if (event.has_state()) texts.push_back(pb::JobState_Name(event.state().state()));
      if (event.has_fetched()) texts.push_back(absl::StrCat("value ", event.fetched().values(0)));
      if (event.has_phase_done()) texts.push_back(absl::StrCat("phase ", event.phase_done().part()));
      return true;
    }));
    return texts;
  }
  // Reads until the job's worker is to be started, and says its hello.
  static void StartWorker(FakeDaemon& daemon, int64_t job) {
    EXPECT_TRUE(daemon.Read().has_welcome());
    daemon.StartWorker(job);
  }

  // Runs the job to its end; its worker fetches so many losses.
  static void Train(FakeDaemon& daemon, int64_t job, int steps) {
    constexpr int kAtOnce = 100;
    for (int first = 0; first < steps; first += kAtOnce) {
      pb::FromWorker fetched;
      for (int step = first; step < first + kAtOnce; ++step) {
        pb::FetchedValue& value = *fetched.mutable_fetched()->add_values()->mutable_value();
        value.set_plan("train");
        value.set_name("loss");
        value.set_step(step);
        value.add_values(step);
      }
      daemon.Say(job, fetched);
    }
    pb::FromWorker finished;
    finished.mutable_finished();
    daemon.Say(job, finished);
    EXPECT_TRUE(daemon.Read().to_worker().message().has_dismissal());
  }

  EndedJobsRule keep_;
  std::unique_ptr<TempDir> dir_;
  std::unique_ptr<SchedulerServer> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(SchedulerServerTest, AWatcherSeesAJobFromItsSubmissionToItsEnd) {
  ASSERT_OK_AND_ASSIGN(const int64_t job, client_->Submit(EmptyJob(1, 1)));
  std::vector<std::string> seen;
  std::thread watcher([&] { seen = WatchAll(job); });
  FakeDaemon daemon(server_->address(), "d0", 1);
  StartWorker(daemon, job);
  pb::FromWorker fetched, phase_done, finished;
  fetched.mutable_fetched()->add_values()->mutable_value()->add_values(7);
  daemon.Say(job, fetched);
  phase_done.mutable_phase_done();
  daemon.Say(job, phase_done);
  finished.mutable_finished();
  daemon.Say(job, finished);
  EXPECT_TRUE(daemon.Read().to_worker().message().has_dismissal());
  watcher.join();
  EXPECT_THAT(seen, ElementsAre("QUEUED", "STARTING", "RUNNING", "value 7", "phase 0", "FINISHED"));
  EXPECT_THAT(WatchAll(job, 4), ElementsAre("phase 0", "FINISHED")) << "events are kept";
}

// A job whose steps choose codes, with plans that do nothing.
pb::JobSpec ChoosingJob() {
  pb::JobSpec spec = EmptyJob(1, 1);
  pb::PlanSet plan;
  EXPECT_TRUE(plan.ParseFromString(spec.plan()));
  for (const char* name : {"train/window", kChoicePlan}) {
    pb::ClassPlan& copy = *plan.add_plans();
    copy = plan.plans(0);
    copy.set_name(name);
  }
  spec.set_plan(*SerializePlan(plan));
  spec.set_plan_hash(PlanHash(spec.plan()));
  pb::TrainLoop& loop = *spec.mutable_phases(0)->mutable_train();
  loop.set_plan("train"), loop.set_steps(10);
  pb::ChoiceRule& choice = *loop.mutable_choice();
  choice.set_every(5), choice.set_window(1), choice.set_plan("train/window");
  return spec;
}

TEST_F(SchedulerServerTest, ADescriptionHasTheCodesOfTheLastChoice) {
  ASSERT_OK_AND_ASSIGN(const int64_t job, client_->Submit(ChoosingJob()));
  EXPECT_EQ(client_->Describe(job)->codes_size(), 0);
  FakeDaemon daemon(server_->address(), "d0", 1);
  StartWorker(daemon, job);
  pb::FromWorker fetched;
  const auto fetch = [&](const std::string& plan, const std::string& name, int step, double number) {
    pb::FetchedValue& value = *fetched.mutable_fetched()->add_values()->mutable_value();
    value.set_plan(plan), value.set_name(name), value.set_step(step), value.add_values(number);
  };
  for (int step = 0; step < 1000; ++step) {
    fetch("train", "loss", step, 1);
    if (step % 300 != 299) continue;
    fetch(kChoicePlan, "a/weight", step, step);
    fetch(kChoicePlan, "b/weight", step, 2);
  }
  daemon.Say(job, fetched);
  pb::FromWorker finished;
  finished.mutable_finished();
  daemon.Say(job, finished);
  EXPECT_TRUE(daemon.Read().to_worker().message().has_dismissal());
  EXPECT_EQ(WatchAll(job).back(), "FINISHED");
  ASSERT_OK_AND_ASSIGN(const pb::DescribeReply about, client_->Describe(job));
  ASSERT_EQ(about.codes_size(), 2);
  EXPECT_EQ(about.codes(0).name(), "a/weight");
  EXPECT_EQ(about.codes(0).step(), 899);
  EXPECT_EQ(about.codes(0).values(0), 899);
  EXPECT_EQ(about.codes(1).name(), "b/weight");
}

TEST_F(SchedulerServerTest, ALongCurveIsThinnedWhenNobodyFollows) {
  constexpr int kSteps = 20'000;
  ASSERT_OK_AND_ASSIGN(const int64_t job, client_->Submit(EmptyJob(1, 1)));
  FakeDaemon daemon(server_->address(), "d0", 1);
  StartWorker(daemon, job);
  Train(daemon, job, kSteps);
  // What comes to the store is thinned before what comes after it is stored.
  for (int i = 0; i < 2; ++i) ASSERT_OK(client_->Submit(EmptyJob(1, 1)));
  const std::vector<std::string> seen = WatchAll(job);
  EXPECT_LT(seen.size(), 2000u);
  EXPECT_EQ(seen[3], "value 0");
  EXPECT_EQ(seen[seen.size() - 2], absl::StrCat("value ", kSteps - 1));
  EXPECT_EQ(seen.back(), "FINISHED");
}

TEST_F(SchedulerServerTest, WhoFollowsSlowlySeesAllOfACurve) {
  constexpr int kSteps = 20'000;
  ASSERT_OK_AND_ASSIGN(const int64_t job, client_->Submit(EmptyJob(1, 1)));
  absl::Notification follows, ended;
  int64_t values = 0;
  std::thread follower([&] {
    const absl::Status watched = client_->Watch(job, 0, [&](const pb::JobEvent& event) {
      if (!follows.HasBeenNotified()) follows.Notify();
      ended.WaitForNotification();
      if (event.has_fetched()) {
        EXPECT_EQ(event.fetched().step(), values++);
      }
      return true;
    });
    EXPECT_OK(watched);
  });
  follows.WaitForNotification();
  FakeDaemon daemon(server_->address(), "d0", 1);
  StartWorker(daemon, job);
  Train(daemon, job, kSteps);
  ended.Notify();
  follower.join();
  EXPECT_EQ(values, kSteps);
}

TEST_F(SchedulerServerTest, AConnectionThatClosesFailsTheJobOfThatDaemon) {
  ASSERT_OK_AND_ASSIGN(const int64_t job, client_->Submit(EmptyJob(1, 1)));
  FakeDaemon daemon(server_->address(), "d0", 1);
  StartWorker(daemon, job);
  daemon.Hang();
  EXPECT_THAT(WatchAll(job), ElementsAre("QUEUED", "STARTING", "RUNNING", "FAILED"));
  ASSERT_OK_AND_ASSIGN(const auto jobs, client_->List());
  EXPECT_EQ(jobs[0].message(), "daemon 'd0' (pid 12) was lost: its connection closed; it ran worker 0 of job 1");
}

TEST_F(SchedulerServerTest, MistakesAreAnsweredWithWhoAndWhy) {
  pb::JobSpec spec = EmptyJob(1, 1);
  spec.set_processes(3);
  EXPECT_THAT(
      client_->Submit(spec).status(),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          absl::StrCat("scheduler '", server_->address(),
                       "': job 'empty': the plan has 1 ranks, 1 per process; the job has 3 processes of 1 devices")));
  EXPECT_THAT(client_->Cancel(5), StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no job 5")));
  EXPECT_THAT(client_->Logs(5).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no job 5")));
  EXPECT_THAT(client_->Watch(5, 0, [](const pb::JobEvent&) { return true; }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no job 5")));
  EXPECT_THAT(Client::Connect("127.0.0.1:1", absl::Milliseconds(50)).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("scheduler '127.0.0.1:1': cannot connect")));
}

TEST_F(SchedulerServerTest, LogsAreFetchedFromTheDaemon) {
  ASSERT_OK_AND_ASSIGN(const int64_t job, client_->Submit(EmptyJob(1, 1)));
  FakeDaemon daemon(server_->address(), "d0", 1);
  StartWorker(daemon, job);
  std::thread answer([&daemon] {
    const pb::ToDaemon query = daemon.Read();
    pb::FromDaemon message;
    message.mutable_logs()->set_request(query.logs().request());
    message.mutable_logs()->mutable_log()->set_text("hello");
    daemon.Write(message);
  });
  ASSERT_OK_AND_ASSIGN(const std::vector<pb::WorkerLog> logs, client_->Logs(job));
  answer.join();
  ASSERT_THAT(logs, SizeIs(1));
  EXPECT_EQ(logs[0].text(), "hello");
  EXPECT_EQ(logs[0].daemon(), "d0");
}

TEST_F(SchedulerServerTest, ADaemonWithATakenNameIsToldSo) {
  FakeDaemon first(server_->address(), "d0", 1);
  EXPECT_TRUE(first.Read().has_welcome());
  pb::FromDaemon hello;
  grpc::ClientContext context;
  const auto stub = pb::Scheduler::NewStub(OpenChannel(server_->address()));
  const auto stream = stub->DaemonSession(&context);
  hello.mutable_hello()->set_name("d0");
  hello.mutable_hello()->set_host("h");
  hello.mutable_hello()->set_memory("m");
  hello.mutable_hello()->set_pid(13);
  stream->Write(hello);
  EXPECT_THAT(FromGrpc(stream->Finish()),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("the name 'd0' is taken")));
}

TEST_F(SchedulerServerTest, ARestartedSchedulerGoesOnWithItsJobs) {
  ASSERT_OK_AND_ASSIGN(const int64_t ran, client_->Submit(EmptyJob(1, 1)));
  ASSERT_OK_AND_ASSIGN(const int64_t queued, client_->Submit(EmptyJob(1, 1)));
  {
    FakeDaemon daemon(server_->address(), "d0", 1);
    StartWorker(daemon, ran);
    server_->Stop();
    EXPECT_FALSE(daemon.End().ok());
  }
  client_.reset();
  server_.reset();
  Start();
  ASSERT_OK_AND_ASSIGN(const auto jobs, client_->List());
  EXPECT_EQ(jobs[0].state(), pb::RUNNING);
  EXPECT_EQ(jobs[1].state(), pb::QUEUED);
  FakeDaemon daemon(server_->address(), "d0", 1, {ran});
  EXPECT_THAT(daemon.Read().welcome().keep(), SizeIs(1));
  pb::FromWorker finished;
  finished.mutable_finished();
  daemon.Say(ran, finished);
  EXPECT_THAT(WatchAll(ran), ElementsAre("QUEUED", "STARTING", "RUNNING", "FINISHED"));
  EXPECT_TRUE(daemon.Read().to_worker().message().has_dismissal());
  pb::FromDaemon exited;
  exited.set_number(1);
  exited.mutable_exited()->set_job(ran);
  exited.mutable_exited()->set_attempt(1);
  daemon.Write(exited);
  const pb::ToDaemon start = daemon.Read();
  EXPECT_EQ(start.start().job(), queued);
  EXPECT_EQ(PlanHash(start.start().spec().plan()), start.start().spec().plan_hash()) << "from the store";
  EXPECT_EQ(daemon.Read().stored().number(), 1);
}

TEST_F(SchedulerServerTest, JobsThatAreNoLongerKeptAreForgottenAndTheirNumbersAreNotGivenAgain) {
  server_.reset();
  keep_ = {.jobs = 1, .every = absl::Milliseconds(1)};
  Start();
  FakeDaemon daemon(server_->address(), "d0", 1);
  for (int job = 1; job <= 3; ++job) {
    ASSERT_OK_AND_ASSIGN(const int64_t number, client_->Submit(EmptyJob(1, 1)));
    EXPECT_EQ(number, job);
    pb::ToDaemon message = daemon.Read();
    while (!message.has_start()) message = daemon.Read();  // it is told to forget what came before
    pb::FromWorker failed;
    failed.mutable_failed()->set_message("no luck");
    daemon.Say(job, failed);
    WatchAll(job);
    pb::FromDaemon exited;
    exited.mutable_exited()->set_job(job);
    exited.mutable_exited()->set_attempt(1);
    daemon.Write(exited);
  }
  while (client_->List()->size() > 1) std::this_thread::yield();
  EXPECT_EQ(client_->List()->at(0).job(), 3);
  EXPECT_THAT(client_->Describe(1).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no job 1")));
  server_.reset();
  keep_.jobs = 0;
  Start();
  EXPECT_EQ(client_->List()->size(), 1u);
  EXPECT_EQ(client_->Submit(EmptyJob(1, 1)).value_or(0), 4);
  while (client_->List()->size() > 1) std::this_thread::yield();
  EXPECT_EQ(client_->List()->at(0).job(), 4);
}

TEST_F(SchedulerServerTest, ADaemonIsSentAPlanOnceForAllItsProcesses) {
  FakeDaemon daemon(server_->address(), "d0", 2);
  EXPECT_TRUE(daemon.Read().has_welcome());
  pb::JobSpec spec = EmptyJob(2, 1);
  spec.add_graphs("a long text that workers do not read");
  ASSERT_OK(client_->Submit(spec).status());
  const pb::ToDaemon first = daemon.Read(), second = daemon.Read();
  EXPECT_EQ(first.start().spec().plan(), spec.plan());
  EXPECT_EQ(second.start().process(), 1);
  EXPECT_EQ(second.start().spec().plan(), "");
  EXPECT_EQ(second.start().spec().plan_hash(), spec.plan_hash());
  EXPECT_EQ(first.start().spec().graphs_size() + second.start().spec().graphs_size(), 0);
}

TEST_F(SchedulerServerTest, AHostThatAsksWithoutPauseIsHeldUp) {
  absl::Status held_up;
  for (int i = 0; i < 100'000 && held_up.ok(); ++i) held_up = client_->List().status();
  EXPECT_THAT(held_up, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("more than 200 requests a second come from your host: try again")));
}

TEST_F(SchedulerServerTest, APageThatNothingServesIsAnError) {
  EXPECT_THAT(SchedulerServer::Start({.db_path = dir_->path() + "/others.db", .page = "0"}).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("--page")));
}

TEST_F(SchedulerServerTest, StopEndsWatchersWithAReason) {
  ASSERT_OK_AND_ASSIGN(const int64_t job, client_->Submit(EmptyJob(1, 1)));
  absl::Status ended;
  std::thread watcher([&] {
    ended = client_->Watch(job, 0, [this](const pb::JobEvent&) {
      std::thread([this] { server_->Stop(); }).detach();
      return true;
    });
  });
  watcher.join();
  EXPECT_OK(server_->Wait());
  EXPECT_FALSE(ended.ok());
  server_->Stop();  // waits for the other
}

}  // namespace
}  // namespace oneflow
