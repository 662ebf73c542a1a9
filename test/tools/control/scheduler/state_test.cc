#include "tools/control/scheduler/state.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <random>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/support/job_spec.h"

namespace oneflow {
namespace {

using ::oneflow::testing::AddFallback;
using ::oneflow::testing::EmptyJob;
using ::oneflow::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A scheduler on a clock of our own. What it does is gathered in `effects` until Take() or Messages() empty it.
class SchedulerStateTest : public ::testing::Test {
 protected:
  // `workers`: of it, which it says it has.
  SessionId AddDaemon(const std::string& name, int devices, int pid = 12, const std::string& host = "h",
                      const std::vector<pb::RunningWorker>& workers = {}, const std::string& memory = "m") {
    pb::DaemonHello hello;
    hello.mutable_workers()->Assign(workers.begin(), workers.end());
    hello.set_name(name);
    hello.set_host(host);
    hello.set_memory(memory);
    hello.set_pid(pid);
    hello.set_incarnation(pid);
    hello.set_cpu_devices(devices);
    const SessionId session = ++last_session_;
    EXPECT_OK(state_.DaemonHello(session, hello, now_, effects_));
    return session;
  }

  int64_t Submit(int processes, int devices, const std::string& device = "cpu", int hosts = 1, int attempts = 1) {
    pb::JobSpec spec = EmptyJob(processes, devices, hosts);
    spec.set_device(device);
    spec.mutable_restart()->set_attempts(attempts);
    return *state_.Submit(Accept(spec), now_, effects_);
  }

  int64_t SubmitAs(const std::string& user, int processes, int devices, int priority = 0) {
    AcceptedSpec accepted = Accept(EmptyJob(processes, devices));
    accepted.user = user;
    accepted.priority = priority;
    return *state_.Submit(std::move(accepted), now_, effects_);
  }
  // Cancels it, and all its workers exit.
  void EndWithAllWorkers(int64_t job) {
    EXPECT_OK(state_.Cancel(job, /*gently=*/false, now_, effects_));
    const int workers = state_.Describe(job)->workers_size();
    for (int process = 0; process < workers; ++process) {
      for (SessionId session = 1; session <= last_session_; ++session) Exit(session, job, process, 0, SIGTERM);
    }
  }

  void Report(SessionId session, int64_t job, int process, const pb::FromWorker& message, uint64_t attempt = 1) {
    pb::FromDaemon from;
    from.mutable_report()->set_job(job);
    from.mutable_report()->set_attempt(attempt);
    from.mutable_report()->set_process(process);
    *from.mutable_report()->mutable_message() = message;
    state_.DaemonMessage(session, from, now_, effects_);
  }
  void Hello(SessionId session, int64_t job, int process, uint64_t attempt = 1) {
    pb::FromWorker message;
    message.mutable_hello()->set_pid(100 + process);
    message.mutable_hello()->set_peer_address(absl::StrCat("a:", process));
    Report(session, job, process, message, attempt);
  }
  void Fetched(SessionId session, int64_t job, int process, std::vector<double> values) {
    pb::FromWorker message;
    for (const double value : values) message.mutable_fetched()->add_values()->mutable_value()->add_values(value);
    Report(session, job, process, message);
  }
  void PhaseDone(SessionId session, int64_t job, int process) {
    pb::FromWorker message;
    message.mutable_phase_done();
    Report(session, job, process, message);
  }
  void Finished(SessionId session, int64_t job, int process) {
    pb::FromWorker message;
    message.mutable_finished();
    Report(session, job, process, message);
  }
  void Failed(SessionId session, int64_t job, int process, absl::StatusCode code, const std::string& text,
              uint64_t attempt = 1) {
    pb::FromWorker message;
    message.mutable_failed()->set_code(static_cast<int>(code));
    message.mutable_failed()->set_message(text);
    Report(session, job, process, message, attempt);
  }
  void Exit(SessionId session, int64_t job, int process, int code, int signal = 0, uint64_t attempt = 1) {
    pb::FromDaemon from;
    pb::WorkerExit& exited = *from.mutable_exited();
    exited.set_job(job);
    exited.set_attempt(attempt);
    exited.set_process(process);
    exited.set_pid(100 + process);
    exited.set_exit_code(code);
    exited.set_signal(signal);
    state_.DaemonMessage(session, from, now_, effects_);
  }
  // What a process waits for that idles on one rank, in which some acts have ended.
  static pb::ProcessWaits Idling(int process, int acts) {
    pb::ProcessWaits waits;
    waits.set_process(process);
    waits.set_doing("idles");
    waits.add_queues()->set_rank(process);
    waits.mutable_queues(0)->set_device("cpu:0");
    waits.mutable_queues(0)->set_acts(acts);
    return waits;
  }
  void Waits(SessionId session, int64_t job, int64_t request, int process, int acts = 0) {
    pb::FromDaemon from;
    from.mutable_diagnosis()->set_request(request);
    from.mutable_diagnosis()->set_job(job);
    *from.mutable_diagnosis()->mutable_waits() = Idling(process, acts);
    state_.DaemonMessage(session, from, now_, effects_);
  }
  void Stalled(SessionId session, int64_t job, int process) {
    pb::FromWorker message;
    *message.mutable_waits()->mutable_waits() = Idling(process, 0);
    Report(session, job, process, message);
  }
  void Heartbeat(SessionId session) {
    pb::FromDaemon from;
    from.mutable_heartbeat();
    state_.DaemonMessage(session, from, now_, effects_);
  }
  // As long as the scheduler runs, it looks at the time this often.
  void Advance(absl::Duration duration) {
    constexpr absl::Duration kTick = absl::Milliseconds(100);
    do {
      const absl::Duration step = std::min(duration, kTick);
      now_ += step, duration -= step;
      state_.Tick(now_, effects_);
    } while (duration > absl::ZeroDuration());
  }
  // It does not run for so long, and then goes on.
  void Sleep(absl::Duration duration) {
    now_ += duration;
    state_.Tick(now_, effects_);
  }

  static pb::RunningWorker Running(int64_t job, int process, bool started = true, uint64_t attempt = 1) {
    pb::RunningWorker running;
    running.set_job(job);
    running.set_attempt(attempt);
    running.set_process(process);
    running.set_started(started);
    return running;
  }
  // Another scheduler on what this one has stored.
  void RestartScheduler() {
    std::vector<StoredJob> jobs;
    for (auto& [number, job] : stored_) jobs.push_back(job);
    state_ = SchedulerState();
    effects_ = {};
    state_.Restore(std::move(jobs), stored_daemons_, now_, effects_);
  }
  // What a store would have: to be called before effects are taken.
  void Store() {
    for (const NewJob& job : effects_.new_jobs) {
      stored_[job.job].spec = job.spec;
      stored_[job.job].gangs = {{{job.spec.processes()}, job.spec.devices_per_process()}};
      for (const pb::Fallback& fallback : job.spec.fallbacks()) {
        stored_[job.job].gangs.push_back({{fallback.processes()}, fallback.devices_per_process()});
      }
    }
    for (const pb::JobStatus& status : effects_.changed_jobs) stored_[status.job()].status = status;
    for (const auto& [job, event] : effects_.events) stored_[job].next_sequence = event.sequence() + 1;
    for (const auto& [place, worker] : effects_.changed_workers) {
      std::vector<pb::StoredWorker>& workers = stored_[place.first].workers;
      workers.resize(std::max<size_t>(workers.size(), place.second + 1));
      workers[place.second] = worker;
    }
    for (const auto& [name, daemon] : effects_.changed_daemons) stored_daemons_[name] = daemon;
  }

  // A job of two processes that runs on daemons d0 (session 1) and d1 (session 2), one each.
  int64_t RunTwo(int attempts = 1, bool abort = false) {
    AddDaemon("d0", 1, 10);
    AddDaemon("d1", 1, 12);
    pb::JobSpec spec = EmptyJob(2, 1, /*hosts=*/1);
    spec.mutable_restart()->set_attempts(attempts);
    spec.mutable_stall()->set_abort(abort);
    spec.mutable_stall()->set_seconds(abort ? 3 : 0);
    const int64_t job = *state_.Submit(Accept(spec), now_, effects_);
    Hello(1, job, 0);
    Hello(2, job, 1);
    EXPECT_EQ(State(job), pb::RUNNING);
    Store();
    effects_ = {};
    return job;
  }

  static pb::LogsRequest AskLogs(int64_t job) {
    pb::LogsRequest request;
    request.set_job(job);
    return request;
  }
  pb::JobState State(int64_t job) { return state_.Find(job)->state(); }
  std::string Message(int64_t job) { return state_.Find(job)->message(); }

  // "1:start 7/0": what sessions were told since the last call, without welcomes.
  std::vector<std::string> Messages() {
    std::vector<std::string> texts;
    for (const auto& [session, message] : effects_.messages) {
      if (message.has_start()) {
        texts.push_back(absl::StrCat(session, ":start ", message.start().job(), "/", message.start().process()));
      } else if (message.has_to_worker()) {
        const pb::ToWorkerEnvelope& to = message.to_worker();
        const char* const what = to.message().has_dismissal() ? "dismiss "
                                 : to.message().has_stop()    ? "end "
                                 : to.message().has_save()    ? "save "
                                                              : "go ";
        texts.push_back(absl::StrCat(session, ":", what, to.job(), "/", to.process()));
      } else if (message.has_stop()) {
        texts.push_back(absl::StrCat(session, ":stop ", message.stop().job()));
      } else if (message.has_diagnose()) {
        const pb::DiagnosisQuery& query = message.diagnose();
        texts.push_back(
            absl::StrCat(session, ":diagnose ", query.job(), "/", query.process(), " as ", query.request()));
      } else if (message.has_logs()) {
        texts.push_back(absl::StrCat(session, ":logs ", message.logs().job(), "/", message.logs().process()));
      }
    }
    effects_.messages.clear();
    return texts;
  }
  // "QUEUED", "value 1", "phase 0": the events since the last call, of all jobs.
  std::vector<std::string> Events() {
    std::vector<std::string> texts;
    for (const auto& [job, event] : effects_.events) {
      if (event.has_state()) texts.push_back(pb::JobState_Name(event.state().state()));
      if (event.has_fetched()) texts.push_back(absl::StrCat("value ", event.fetched().values(0)));
      if (event.has_phase_done()) texts.push_back(absl::StrCat("phase ", event.phase_done().part()));
    }
    effects_.events.clear();
    return texts;
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  SchedulerState state_;
  Effects effects_;
  std::map<int64_t, StoredJob> stored_;
  std::map<std::string, pb::StoredDaemon> stored_daemons_;
  SessionId last_session_ = 0;
};

// --- Queue and placement ---

TEST_F(SchedulerStateTest, AJobRunsFromSubmissionToItsEnd) {
  AddDaemon("d0", 1);
  AddDaemon("d1", 1, 13);
  const int64_t job = Submit(2, 1);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "2:start 1/1"));
  Hello(1, job, 0);
  EXPECT_THAT(Messages(), IsEmpty()) << "the second worker's address is not known yet";
  Hello(2, job, 1);
  ASSERT_THAT(effects_.messages, SizeIs(2));
  EXPECT_THAT(effects_.messages[1].second.to_worker().message().start().peer_addresses(), ElementsAre("a:0", "a:1"));
  EXPECT_THAT(Messages(), ElementsAre("1:go 1/0", "2:go 1/1"));
  Fetched(1, job, 0, {5, 4});
  PhaseDone(1, job, 0);
  PhaseDone(1, job, 0);
  Fetched(2, job, 1, {3});
  PhaseDone(2, job, 1);
  PhaseDone(2, job, 1);
  Finished(1, job, 0);
  EXPECT_THAT(Messages(), IsEmpty()) << "a worker must not go before its peers have finished";
  Finished(2, job, 1);
  EXPECT_THAT(Messages(), ElementsAre("1:dismiss 1/0", "2:dismiss 1/1"));
  EXPECT_THAT(Events(), ElementsAre("QUEUED", "STARTING", "RUNNING", "value 5", "value 4", "value 3", "phase 0",
                                    "phase 1", "FINISHED"));
  Exit(1, job, 0, 0);
  Exit(2, job, 1, 0);
  Advance(absl::Seconds(1));
  EXPECT_THAT(Events(), IsEmpty());
  EXPECT_EQ(State(job), pb::FINISHED);
}

TEST_F(SchedulerStateTest, WhatWorkersCountedIsToldBeforeThePhaseIsDone) {
  AddDaemon("d0", 2);
  const int64_t job = Submit(2, 1);
  Hello(1, job, 0);
  Hello(1, job, 1);
  effects_.events.clear();
  for (const int process : {0, 1}) {
    pb::FromWorker message;
    message.mutable_phase_done()->mutable_stats()->set_acts(10 + process);
    Report(1, job, process, message);
  }
  ASSERT_THAT(effects_.events, SizeIs(3));
  for (const int process : {0, 1}) {
    const pb::PhaseStats& stats = effects_.events[process].second.stats();
    EXPECT_EQ(stats.process(), process);
    EXPECT_EQ(stats.stats().acts(), 10 + process);
  }
  EXPECT_TRUE(effects_.events[2].second.has_phase_done());
}

TEST_F(SchedulerStateTest, EventsAreNumberedWithoutGapsPerJob) {
  AddDaemon("d0", 1);
  Submit(1, 1);
  Submit(1, 1);
  Hello(1, 1, 0);
  std::map<int64_t, std::vector<int64_t>> sequences;
  for (const auto& [job, event] : effects_.events) sequences[job].push_back(event.sequence());
  EXPECT_THAT(sequences[1], ElementsAre(0, 1, 2));
  EXPECT_THAT(sequences[2], ElementsAre(0));
  EXPECT_EQ(state_.num_events(1), 3);
}

TEST_F(SchedulerStateTest, AJobWaitsUntilAllItsProcessesFitAndSaysWhatFor) {
  const int64_t job = Submit(2, 2);
  AddDaemon("d0", 2);
  EXPECT_EQ(State(job), pb::QUEUED);
  EXPECT_EQ(state_.List()[0].message(),
            "host 0 of the plan takes 4 cpu devices, 2 for each process; no machine offers more than 2");
  AddDaemon("d1", 2, 13);
  EXPECT_EQ(State(job), pb::STARTING);
}

TEST_F(SchedulerStateTest, AHostOfThePlanIsOneMachineWhateverItsDaemons) {
  AddDaemon("a0", 2, 10, "a");
  AddDaemon("b0", 1, 11, "b");
  AddDaemon("b1", 1, 12, "b");
  Submit(4, 1, "cpu", /*hosts=*/2);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "1:start 1/1", "2:start 1/2", "3:start 1/3"));
}

TEST_F(SchedulerStateTest, AJobDoesNotLieOnTwoMachinesUnlessItsPlanDoes) {
  AddDaemon("a", 1, 10, "a");
  AddDaemon("b", 1, 11, "b");
  const int64_t together = Submit(2, 1), apart = Submit(2, 1, "cpu", /*hosts=*/2);
  EXPECT_EQ(State(together), pb::QUEUED);
  EXPECT_EQ(state_.List()[0].message(), "host 0 of the plan takes 2 cpu devices; no machine offers more than 1");
  EXPECT_EQ(State(apart), pb::STARTING);
}

TEST_F(SchedulerStateTest, AQueuedJobSaysWhetherItLacksFreeDevicesOrItsTurn) {
  AddDaemon("a", 2, 10, "a");
  AddDaemon("b", 2, 11, "b");
  Submit(1, 1);
  Submit(2, 2, "cpu", /*hosts=*/2);
  Submit(1, 1);
  EXPECT_EQ(
      state_.List()[1].message(),
      "the plan's 2 hosts take 4 cpu devices, 2 for each process; 2 machines have 2 free, and no host may lie on two");
  EXPECT_EQ(state_.List()[2].message(),
            "another job is first in line, and would wait longer for its devices if this one had them");
}

TEST_F(SchedulerStateTest, NoJobOvertakesOneThatCouldRunLater) {
  AddDaemon("d0", 2);
  Submit(1, 1);
  const int64_t large = Submit(1, 2), small = Submit(1, 1);
  EXPECT_EQ(State(large), pb::QUEUED);
  EXPECT_EQ(State(small), pb::QUEUED) << "one device is free, but the larger job came first";
  Exit(1, 1, 0, 1);
  EXPECT_EQ(State(large), pb::STARTING);
  EXPECT_EQ(State(small), pb::QUEUED);
}

TEST_F(SchedulerStateTest, AJobThatNoDaemonCouldHoldDoesNotBlockOthers) {
  AddDaemon("d0", 1);
  const int64_t impossible = Submit(1, 8), cuda = Submit(1, 1, "cuda"), small = Submit(1, 1);
  EXPECT_EQ(State(impossible), pb::QUEUED);
  EXPECT_EQ(State(cuda), pb::QUEUED);
  EXPECT_EQ(State(small), pb::STARTING);
}

TEST_F(SchedulerStateTest, DevicesAreTakenUntilTheWorkerHasExited) {
  AddDaemon("d0", 1);
  const int64_t first = Submit(1, 1), second = Submit(1, 1);
  Hello(1, first, 0);
  Finished(1, first, 0);
  EXPECT_EQ(State(first), pb::FINISHED);
  EXPECT_EQ(State(second), pb::QUEUED);
  Exit(1, first, 0, 0);
  EXPECT_EQ(State(second), pb::STARTING);
}

TEST_F(SchedulerStateTest, AWorkerThatWillNotExitAfterItsJobIsStopped) {
  const int64_t job = RunTwo();
  Finished(1, job, 0);
  Finished(2, job, 1);
  Exit(1, job, 0, 0);
  Messages();
  for (int i = 0; i < 9; ++i) Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(1));
  EXPECT_THAT(Messages(), IsEmpty());
  Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(1));
  EXPECT_THAT(Messages(), ElementsAre("2:stop 1"));
  EXPECT_EQ(State(job), pb::FINISHED);
}

TEST_F(SchedulerStateTest, AQueueIsNotEndless) {
  SchedulerLimits limits;
  limits.queued = 2;
  state_ = SchedulerState(limits);
  AddDaemon("d0", 1);
  for (int i = 0; i < 3; ++i) Submit(1, 1);
  EXPECT_THAT(state_.Submit(Accept(EmptyJob(1, 1)), now_, effects_).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, "2 jobs are in the queue, and that is all it may hold"));
  EXPECT_OK(state_.Cancel(2, /*gently=*/false, now_, effects_));
  EXPECT_OK(state_.Submit(Accept(EmptyJob(1, 1)), now_, effects_).status());
}

// --- The line ---

TEST_F(SchedulerStateTest, TheLineIsByPriorityAndThenByNumber) {
  AddDaemon("d0", 1, 10);
  const int64_t running = SubmitAs("ada", 1, 1);
  const int64_t low = SubmitAs("ada", 1, 1, -5), early = SubmitAs("ada", 1, 1), late = SubmitAs("ada", 1, 1);
  const int64_t high = SubmitAs("ada", 1, 1, 7);
  int64_t ends = running;
  for (const int64_t next : {high, early, late, low}) {
    EXPECT_EQ(State(next), pb::QUEUED);
    EXPECT_OK(state_.Cancel(ends, /*gently=*/false, now_, effects_));
    Exit(1, ends, 0, 0, SIGTERM);
    EXPECT_EQ(State(next), pb::STARTING) << next;
    ends = next;
  }
}

TEST_F(SchedulerStateTest, NobodyHasMoreDevicesThanAUserMay) {
  SchedulerLimits limits;
  limits.devices_per_user = 2;
  state_ = SchedulerState(limits);
  AddDaemon("d0", 4, 10);
  const int64_t first = SubmitAs("ada", 1, 2), second = SubmitAs("ada", 1, 1), other = SubmitAs("bob", 1, 2);
  EXPECT_EQ(State(first), pb::STARTING);
  EXPECT_EQ(State(other), pb::STARTING) << "who must wait for himself holds up nobody";
  EXPECT_EQ(state_.List()[1].message(), "a user may have 2 cpu devices; 'ada' has 2, and the job takes 1");
  Exit(1, first, 0, 1);
  EXPECT_EQ(State(second), pb::STARTING);
}

// Daemons of 4 and 3 devices. A job of one process with 3 devices runs on each, and another with 3 waits.
TEST_F(SchedulerStateTest, WhatTheFirstInLineCannotUseGoesToThoseBehindIt) {
  AddDaemon("d0", 4, 10, "g"), AddDaemon("d1", 3, 12, "h");
  SubmitAs("ada", 1, 3), SubmitAs("ada", 1, 3);
  const int64_t first = SubmitAs("ada", 1, 3);
  EXPECT_EQ(State(first), pb::QUEUED);
  EXPECT_EQ(State(SubmitAs("ada", 1, 1)), pb::STARTING) << "one device of d0 is left over whatever ends";
}

// A daemon of 4 devices, of which 2 are free; the first in line waits for 4.
TEST_F(SchedulerStateTest, WhatTheFirstInLineMayNeedIsKeptForIt) {
  AddDaemon("d0", 4, 10);
  const int64_t running = SubmitAs("ada", 1, 2), first = SubmitAs("ada", 1, 4), behind = SubmitAs("ada", 1, 1);
  EXPECT_EQ(State(behind), pb::QUEUED);
  EXPECT_EQ(state_.List()[2].message(),
            "another job is first in line, and would wait longer for its devices if this one had them");
  Exit(1, running, 0, 1);
  EXPECT_EQ(State(first), pb::STARTING);
}

// The promise itself: whatever is submitted and ends, the first in line begins no later than it would if nobody had
// been let past it.
TEST_F(SchedulerStateTest, NothingDelaysTheFirstInLine) {
  for (int seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](int n) { return static_cast<int>(random() % n); };
    std::vector<int> offered(1 + below(3));
    for (int& devices : offered) devices = 1 + below(8);
    std::vector<std::pair<int, int>> jobs(12);  // processes and devices of each
    for (auto& [processes, devices] : jobs) processes = 1 + below(2), devices = 1 + below(4);
    // Where all that run before the first in line end in the same order, it begins after as many ends.
    int begins[2];
    for (const bool others : {false, true}) {
      state_ = SchedulerState();
      effects_ = {};
      last_session_ = 0;
      std::mt19937 order(seed);
      for (size_t i = 0; i < offered.size(); ++i) AddDaemon(absl::StrCat("d", i), offered[i], 10 + i, absl::StrCat(i));
      int64_t first = 0;
      std::vector<int64_t> running;
      for (const auto& [processes, devices] : jobs) {
        if (first != 0 && !others) break;
        const int64_t job = SubmitAs("ada", processes, devices);
        if (State(job) == pb::STARTING && first == 0) running.push_back(job);
        const bool waits = State(job) == pb::QUEUED && absl::StrContains(state_.List().back().message(), "free");
        if (waits && first == 0) first = job;
      }
      std::shuffle(running.begin(), running.end(), order);
      begins[others] = -1;
      for (size_t ended = 0; first != 0 && ended < running.size() && begins[others] < 0; ++ended) {
        EndWithAllWorkers(running[ended]);
        if (State(first) != pb::QUEUED) begins[others] = static_cast<int>(ended);
      }
    }
    EXPECT_EQ(begins[0], begins[1]) << "seed " << seed;
  }
}

// --- Other attempts on request, nodes ---

TEST_F(SchedulerStateTest, AJobThatFailedIsTriedAgainOnRequestWhenItsWorkersHaveExited) {
  const int64_t job = RunTwo();
  EXPECT_THAT(state_.Retry(9, {}, now_, effects_), StatusIs(absl::StatusCode::kNotFound, "there is no job 9"));
  EXPECT_THAT(state_.Retry(job, Accept(EmptyJob(2, 1)), now_, effects_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "job 1 is RUNNING; one that FAILED or was CANCELLED may be tried again"));
  Exit(1, job, 0, 0, SIGKILL);
  EXPECT_EQ(State(job), pb::FAILED);
  EXPECT_THAT(state_.Retry(job, Accept(EmptyJob(2, 1)), now_, effects_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "worker 1 (pid 101) on daemon 'd1' has not exited yet: ask again"));
  Exit(2, job, 1, 0, SIGTERM);
  Store();
  effects_ = {};
  EXPECT_OK(state_.Retry(job, Accept(EmptyJob(2, 1)), now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "2:start 1/1"));
  EXPECT_EQ(effects_.events[0].second.state().message(), "attempt 2 of 2 on request");
  ASSERT_THAT(effects_.new_jobs, SizeIs(1)) << "its spec and plan may no longer be kept";
  EXPECT_EQ(state_.Find(job)->finished_us(), 0) << "it has not ended";
  Exit(1, job, 0, 0, SIGKILL, /*attempt=*/2);
  EXPECT_EQ(State(job), pb::FAILED) << "once more, not for ever";
}

TEST_F(SchedulerStateTest, ADrainedDaemonFinishesWhatItHasAndGetsNothingNew) {
  AddDaemon("d0", 2, 10);
  const int64_t job = Submit(1, 1);
  EXPECT_OK(state_.Drain("d0", /*undo=*/false, now_, effects_));
  EXPECT_EQ(State(job), pb::STARTING);
  const int64_t next = Submit(1, 1);
  EXPECT_EQ(state_.List()[1].message(), "every daemon is drained (drained: 1)");
  Store();
  RestartScheduler();
  AddDaemon("d0", 2, 10, "h", {Running(job, 0, /*started=*/false)});
  EXPECT_EQ(State(next), pb::QUEUED) << "also when it comes back, to another scheduler";
  ASSERT_EQ(state_.Nodes().nodes_size(), 1);
  const pb::Node node = state_.Nodes().nodes(0);
  EXPECT_TRUE(node.drained() && !node.away());
  EXPECT_EQ(node.used_cpu(), 1);
  EXPECT_THAT(node.jobs(), ElementsAre(job));
  EXPECT_OK(state_.Drain("d0", /*undo=*/true, now_, effects_));
  EXPECT_EQ(State(next), pb::STARTING);
  EXPECT_THAT(state_.Drain("d7", false, now_, effects_),
              StatusIs(absl::StatusCode::kNotFound, "there is no daemon 'd7'"));
}

TEST_F(SchedulerStateTest, AJobIsDescribedWithThePlacesOfItsWorkers) {
  const int64_t job = RunTwo();
  Finished(1, job, 0);
  state_.SessionEnded(2, now_, effects_);
  ASSERT_OK_AND_ASSIGN(const pb::DescribeReply about, state_.Describe(job));
  EXPECT_EQ(about.status().name(), state_.Find(job)->name());
  ASSERT_EQ(about.workers_size(), 2);
  EXPECT_EQ(about.workers(0).state(), "finished");
  EXPECT_EQ(about.workers(0).daemon(), "d0");
  EXPECT_EQ(about.workers(1).state(), "its daemon is away");
  EXPECT_EQ(about.workers(1).pid(), 101);
  EXPECT_THAT(state_.Describe(9).status(), StatusIs(absl::StatusCode::kNotFound, "there is no job 9"));
}

// --- Failures ---

TEST_F(SchedulerStateTest, AKilledWorkerFailsTheJobAndStopsThePeers) {
  const int64_t job = RunTwo();
  Exit(2, job, 1, 0, SIGKILL);
  EXPECT_EQ(State(job), pb::FAILED);
  EXPECT_EQ(Message(job), "worker 1 (pid 101) on daemon 'd1' was killed by signal 9 (SIGKILL)");
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1"));
  EXPECT_THAT(Events(), ElementsAre("FAILED"));
}

TEST_F(SchedulerStateTest, ADeathExplainsTheComplaintsThatCameBeforeIt) {
  const int64_t job = RunTwo();
  Failed(1, job, 0, absl::StatusCode::kUnavailable, "process 1: connection lost");
  Exit(1, job, 0, 1);
  Advance(absl::Milliseconds(900));
  EXPECT_EQ(State(job), pb::RUNNING);
  Exit(2, job, 1, 0, SIGSEGV);
  EXPECT_THAT(Message(job), HasSubstr("worker 1 (pid 101) on daemon 'd1' was killed by signal 11 (SIGSEGV)"));
}

TEST_F(SchedulerStateTest, AComplaintIsTheCauseWhenNothingExplainsItInTime) {
  const int64_t job = RunTwo();
  Failed(1, job, 0, absl::StatusCode::kAborted, "another failed");
  Failed(2, job, 1, absl::StatusCode::kUnavailable, "process 0: connection lost");
  Advance(absl::Milliseconds(999));
  EXPECT_EQ(State(job), pb::RUNNING);
  Advance(absl::Milliseconds(1));
  EXPECT_EQ(State(job), pb::FAILED);
  EXPECT_EQ(Message(job), "worker 1 (pid 101) on daemon 'd1': process 0: connection lost");
}

TEST_F(SchedulerStateTest, AnErrorOfItsOwnIsTheCauseAtOnceAndTheFirstWins) {
  const int64_t job = RunTwo();
  Failed(1, job, 0, absl::StatusCode::kAborted, "another failed");
  Failed(2, job, 1, absl::StatusCode::kResourceExhausted, "out of memory");
  EXPECT_EQ(Message(job), "worker 1 (pid 101) on daemon 'd1': out of memory");
  Failed(1, job, 0, absl::StatusCode::kInternal, "too late");
  Exit(1, job, 0, 0, SIGKILL);
  Advance(absl::Seconds(2));
  EXPECT_EQ(Message(job), "worker 1 (pid 101) on daemon 'd1': out of memory");
  EXPECT_THAT(Events(), ElementsAre("FAILED")) << "a job ends once";
}

TEST_F(SchedulerStateTest, AnExitWithoutAWordIsAFailureEvenWithCodeZero) {
  const int64_t job = RunTwo();
  Exit(1, job, 0, 0);
  EXPECT_EQ(Message(job), "worker 0 (pid 100) on daemon 'd0' exited with code 0 before it had finished");
}

TEST_F(SchedulerStateTest, ALostDaemonFailsWhatItRan) {
  const int64_t job = RunTwo();
  Failed(1, job, 0, absl::StatusCode::kUnavailable, "process 1: connection lost");
  state_.SessionEnded(2, now_, effects_);
  Heartbeat(1), Advance(absl::Milliseconds(1400));
  EXPECT_EQ(State(job), pb::RUNNING) << "it may come back, and a complaint waits for that";
  Heartbeat(1), Advance(absl::Milliseconds(100));
  EXPECT_EQ(Message(job), "daemon 'd1' (pid 12) was lost: its connection closed; it ran worker 1 of job 1");
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1"));
}

TEST_F(SchedulerStateTest, ASilentDaemonIsLostWhenItsLeaseEnds) {
  const int64_t job = RunTwo();
  for (int i = 0; i < 4; ++i) Heartbeat(1), Advance(absl::Milliseconds(500));
  Heartbeat(1), Advance(absl::Milliseconds(400));
  EXPECT_EQ(State(job), pb::RUNNING);
  Advance(absl::Milliseconds(100));
  EXPECT_EQ(Message(job),
            "daemon 'd1' (pid 12) was lost: no heartbeat for 2.5s (limit 2.5s); it ran worker 1 of job 1");
  ASSERT_THAT(effects_.closed_sessions, SizeIs(1));
  EXPECT_EQ(effects_.closed_sessions[0].first, 2);
  Heartbeat(2);  // too late: nobody knows it any more
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1"));
}

TEST_F(SchedulerStateTest, AskedToSaveARunningJobSavesAndGoesOn) {
  AddDaemon("d0", 1);
  pb::JobSpec spec = EmptyJob(1, 1);
  spec.mutable_checkpoint()->set_path("/checkpoints");
  const int64_t job = *state_.Submit(Accept(spec), now_, effects_);
  EXPECT_THAT(state_.Save(job, effects_), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("STARTING")));
  Hello(1, job, 0);
  Messages();
  EXPECT_OK(state_.Save(job, effects_));
  EXPECT_THAT(Messages(), ElementsAre(absl::StrCat("1:save ", job, "/0")));
  EXPECT_EQ(State(job), pb::RUNNING);
  Finished(1, job, 0);
  EXPECT_EQ(State(job), pb::FINISHED) << "it was not asked to end";
  EXPECT_THAT(state_.Save(job, effects_), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("FINISHED")));
  EXPECT_THAT(state_.Save(99, effects_), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no job 99")));
}

TEST_F(SchedulerStateTest, AJobWithoutCheckpointsCannotSave) {
  const int64_t job = RunTwo();
  EXPECT_THAT(state_.Save(job, effects_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has no checkpoint.path")));
  EXPECT_THAT(Messages(), IsEmpty());
}

TEST_F(SchedulerStateTest, DaemonsOnItsOwnMachineAreHeardOrStopped) {
  for (const bool own : {false, true}) {
    SCOPED_TRACE(own);
    SchedulerLimits limits;
    limits.memory = own ? "m" : "another";
    state_ = SchedulerState(limits);
    last_session_ = 0;
    const int64_t job = RunTwo();
    Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(3));  // nobody is heard
    EXPECT_EQ(State(job), own ? pb::FAILED : pb::RUNNING);
  }
}

TEST_F(SchedulerStateTest, WhatItSleptThroughIsNoReasonToCallOthersDead) {
  for (const double seconds : {1.5, 4.0, 30.0, 3600.0}) {
    SCOPED_TRACE(seconds);
    state_ = SchedulerState();
    last_session_ = 0;
    const int64_t job = RunTwo();
    Advance(absl::Milliseconds(300));
    Failed(1, job, 0, absl::StatusCode::kUnavailable, "process 1: connection lost");  // waits for a grace
    Sleep(absl::Seconds(seconds));
    EXPECT_EQ(State(job), pb::RUNNING);
    Advance(absl::Milliseconds(600));
    EXPECT_EQ(State(job), pb::RUNNING) << "of the grace, and of the lease, as much is left as there was";
    Heartbeat(1), Heartbeat(2), Advance(absl::Milliseconds(400));
    EXPECT_EQ(Message(job), "worker 0 (pid 100) on daemon 'd0': process 1: connection lost");
  }
}

TEST_F(SchedulerStateTest, AfterASleepADaemonThatIsSilentIsLostAsEver) {
  const int64_t job = RunTwo();
  Advance(absl::Milliseconds(200));
  Sleep(absl::Seconds(30));
  for (int i = 0; i < 4; ++i) Heartbeat(1), Advance(absl::Milliseconds(500));
  EXPECT_EQ(State(job), pb::RUNNING);
  Heartbeat(1), Advance(absl::Milliseconds(500));
  EXPECT_THAT(Message(job), HasSubstr("daemon 'd1' (pid 12) was lost: no heartbeat for 2.5s (limit 2.5s)"));
}

// Their connections did not outlive it, and they come back one after the other.
TEST_F(SchedulerStateTest, AfterASleepDaemonsThatMustConnectAnewHaveTime) {
  const int64_t job = RunTwo();
  Advance(absl::Milliseconds(200));
  Sleep(absl::Seconds(20));
  state_.SessionEnded(1, now_, effects_);
  state_.SessionEnded(2, now_, effects_);
  Advance(absl::Seconds(9));
  EXPECT_EQ(State(job), pb::RUNNING);
  Advance(absl::Milliseconds(1000));
  EXPECT_THAT(Message(job), HasSubstr("was lost: its connection closed"));
}

TEST_F(SchedulerStateTest, WhereNobodyIsHeardAllMayBeSuspended) {
  const int64_t job = RunTwo();
  Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(59));
  EXPECT_EQ(State(job), pb::RUNNING);
  Heartbeat(2), Advance(absl::Milliseconds(100));  // the first that goes on
  EXPECT_EQ(State(job), pb::RUNNING);
  for (int i = 0; i < 4; ++i) Heartbeat(2), Advance(absl::Milliseconds(500));
  EXPECT_EQ(State(job), pb::RUNNING);
  Heartbeat(2), Advance(absl::Milliseconds(500));
  EXPECT_THAT(Message(job), HasSubstr("was lost: no heartbeat for 2.5s (limit 2.5s); it ran worker 0"));
}

TEST_F(SchedulerStateTest, ButNotForEver) {
  const int64_t job = RunTwo();
  Heartbeat(1), Heartbeat(2), Advance(absl::Milliseconds(59'900));
  EXPECT_EQ(State(job), pb::RUNNING);
  Advance(absl::Milliseconds(100));
  EXPECT_THAT(Message(job), HasSubstr("was lost: no heartbeat for 1m (limit 1m)"));
}

TEST_F(SchedulerStateTest, AWorkerThatSaysNoHelloFailsTheJob) {
  AddDaemon("d0", 2);
  const int64_t job = Submit(2, 1);
  Hello(1, job, 0);
  for (int i = 0; i < 60; ++i) Heartbeat(1), Advance(absl::Seconds(1));
  EXPECT_EQ(Message(job), "worker 1 on daemon 'd0' was not ready within 1m");
}

TEST_F(SchedulerStateTest, MessagesOfOthersAreIgnored) {
  const int64_t job = RunTwo();
  Exit(1, job, 1, 0, SIGKILL);                 // worker 1 runs on d1
  Exit(2, job, 1, 0, SIGKILL, /*attempt=*/7);  // it is at 1
  Exit(2, job, 5, 0, SIGKILL);                 // no such process
  Exit(2, 99, 0, 0, SIGKILL);                  // no such job
  Exit(77, job, 0, 0, SIGKILL);                // no such daemon
  EXPECT_EQ(State(job), pb::RUNNING);
  EXPECT_THAT(Messages(), IsEmpty());
}

// --- Other attempts ---

TEST_F(SchedulerStateTest, AJobThatMayBeTriedAgainWaitsForTheEndOfItsWorkers) {
  const int64_t job = RunTwo(/*attempts=*/3);
  Exit(2, job, 1, 0, SIGKILL);
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1"));
  EXPECT_EQ(State(job), pb::RUNNING) << "worker 0 still holds its device";
  EXPECT_THAT(Events(), IsEmpty());
  Exit(1, job, 0, 0, SIGTERM);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "2:start 1/1"));
  ASSERT_THAT(effects_.events, SizeIs(2));
  EXPECT_EQ(effects_.events[0].second.state().state(), pb::QUEUED);
  EXPECT_EQ(effects_.events[0].second.state().message(),
            "attempt 2 of 3 after: worker 1 (pid 101) on daemon 'd1' was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(state_.Find(job)->attempt(), 2);
}

TEST_F(SchedulerStateTest, ALaterAttemptRunsToTheEndAndHearsNothingOfTheFormer) {
  const int64_t job = RunTwo(2);
  PhaseDone(1, job, 0);
  Exit(1, job, 0, 1);
  Exit(2, job, 1, 1);
  Messages();
  Hello(1, job, 0);  // what the first attempt said late
  Hello(2, job, 1);
  PhaseDone(2, job, 1);
  Exit(2, job, 1, 0, SIGKILL);
  Failed(1, job, 0, absl::StatusCode::kInternal, "of attempt 1");
  EXPECT_EQ(State(job), pb::STARTING);
  EXPECT_THAT(Messages(), IsEmpty());
  Hello(1, job, 0, 2);
  Hello(2, job, 1, 2);
  EXPECT_EQ(State(job), pb::RUNNING);
  ASSERT_THAT(effects_.messages, SizeIs(2));
  EXPECT_EQ(effects_.messages[0].second.to_worker().attempt(), 2);
  effects_ = {};
  Finished(1, job, 0);  // late again
  Finished(2, job, 1);
  EXPECT_EQ(State(job), pb::RUNNING);
}

TEST_F(SchedulerStateTest, ALostDaemonsJobGoesOnElsewhere) {
  const int64_t job = RunTwo(2);
  AddDaemon("d2", 1, 14);
  state_.SessionEnded(2, now_, effects_);
  Heartbeat(1), Heartbeat(3), Advance(absl::Milliseconds(1500));
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1"));
  Exit(1, job, 0, 0, SIGTERM);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "3:start 1/1"));
}

// --- On fewer devices ---

// A job of two processes that may go on in one, on daemons d0 (session 1) and d1 (session 2), of which d1 is lost.
class FallbackTest : public SchedulerStateTest {
 protected:
  void SetUp() override {
    AddDaemon("d0", 1, 10);
    AddDaemon("d1", 1, 12);
    pb::JobSpec spec = EmptyJob(2, 1);
    spec.mutable_restart()->set_attempts(5);
    spec.mutable_restart()->set_wait_seconds(5);
    AddFallback(EmptyJob(1, 1), "1 device", spec);
    job_ = *state_.Submit(Accept(spec), now_, effects_);
    Hello(1, job_, 0);
    Hello(2, job_, 1);
    ASSERT_EQ(State(job_), pb::RUNNING);
    Store();
    Messages();
  }
  void LoseD1() {
    state_.SessionEnded(2, now_, effects_);
    Heartbeat(1), Advance(absl::Milliseconds(1500));
    Exit(1, job_, 0, 0, SIGTERM);
    EXPECT_EQ(State(job_), pb::QUEUED);
    Store();
    Messages();
  }
  void Wait(double seconds) {
    for (double waited = 0; waited < seconds; waited += 0.5) {
      for (SessionId session = 1; session <= last_session_; ++session) Heartbeat(session);
      Advance(absl::Seconds(0.5));
    }
  }

  int64_t job_ = 0;
};

TEST_F(FallbackTest, AJobWaitsForALostDaemonAndThenGoesOnWithoutIt) {
  LoseD1();
  Wait(4.5);
  EXPECT_EQ(State(job_), pb::QUEUED);
  EXPECT_EQ(state_.Find(job_)->processes(), 2);
  effects_ = {};
  Wait(0.5);
  EXPECT_EQ(State(job_), pb::STARTING);
  ASSERT_THAT(effects_.messages, SizeIs(1));
  const pb::JobSpec& spec = effects_.messages[0].second.start().spec();
  EXPECT_EQ(spec.processes(), 1);
  EXPECT_EQ(spec.layout(), "1 device");
  EXPECT_EQ(spec.plan_hash(), EmptyJob(1, 1).plan_hash());
  ASSERT_FALSE(effects_.events.empty());
  EXPECT_EQ(effects_.events[0].second.notice().text(),
            "goes on with 1 device: host 0 of the plan takes 2 cpu devices; no machine offers more than 1");
  EXPECT_EQ(state_.Find(job_)->processes(), 1);
  EXPECT_EQ(state_.Find(job_)->fallback(), 1);
  Hello(1, job_, 0, 2);
  EXPECT_EQ(State(job_), pb::RUNNING);
  Exit(1, job_, 0, 0, SIGKILL, 2);
  EXPECT_EQ(state_.Nodes().nodes(0).used_cpu(), 0);
}

TEST_F(FallbackTest, ADaemonThatComesBackInTimeIsUsed) {
  LoseD1();
  Wait(3);
  AddDaemon("d1", 1, 99);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "3:start 1/1"));
  EXPECT_EQ(state_.Find(job_)->fallback(), 0);
}

TEST_F(FallbackTest, TheNextAttemptIsOnItsOwnLayoutIfThereIsOneAgain) {
  LoseD1();
  Wait(5);
  Hello(1, job_, 0, 2);
  AddDaemon("d1", 1, 99);
  EXPECT_EQ(State(job_), pb::RUNNING) << "what runs is left alone";
  Messages();
  Exit(1, job_, 0, 0, SIGKILL, 2);
  EXPECT_THAT(Messages(), ElementsAre("1:start 1/0", "3:start 1/1"));
  EXPECT_EQ(state_.Find(job_)->fallback(), 0);
}

TEST_F(FallbackTest, DevicesThatOthersHaveAreWaitedFor) {
  LoseD1();
  pb::JobSpec other = EmptyJob(1, 1);
  *state_.Submit(Accept(other), now_, effects_);  // d0 is free, and job 1 could not be held by it
  AddDaemon("d1", 1, 99);
  Wait(10);
  EXPECT_EQ(State(job_), pb::QUEUED) << "both are there, and one is busy";
  EXPECT_EQ(state_.Find(job_)->fallback(), 0);
}

TEST_F(FallbackTest, ARestartedSchedulerKnowsTheLayout) {
  LoseD1();
  Wait(5);
  Hello(1, job_, 0, 2);
  Store();
  RestartScheduler();
  EXPECT_EQ(state_.Find(job_)->fallback(), 1);
  EXPECT_EQ(state_.Describe(job_)->workers_size(), 1);
  AddDaemon("d0", 1, 10, "h", {Running(job_, 0, true, 2)});
  EXPECT_EQ(State(job_), pb::RUNNING);
}

// --- Memory ---

TEST_F(SchedulerStateTest, JobsTakeMemoryOfMachines) {
  pb::DaemonHello hello;
  hello.set_name("d0"), hello.set_host("h"), hello.set_memory("m"), hello.set_cpu_devices(8);
  hello.set_memory_bytes(10'000'000'000);
  ASSERT_OK(state_.DaemonHello(++last_session_, hello, now_, effects_));
  const auto submit = [&](int processes, double gigabytes) {
    return *state_.Submit(Accept(EmptyJob(processes, 1, 1, static_cast<int64_t>(gigabytes * 1e9))), now_, effects_);
  };
  const int64_t first = submit(2, 3), second = submit(1, 5), small = submit(1, 0.5), never = submit(1, 10.1);
  EXPECT_EQ(State(first), pb::STARTING);
  EXPECT_EQ(state_.Nodes().nodes(0).used_memory_bytes(), 6'000'000'000);
  EXPECT_EQ(State(second), pb::QUEUED);
  EXPECT_EQ(State(small), pb::QUEUED) << "it could take what the second waits for";
  EXPECT_EQ(state_.List()[1].message(),
            "host 0 of the plan takes 5.0 GB of memory; no machine has more than 4.0 GB free");
  EXPECT_EQ(state_.List()[3].message(),
            "host 0 of the plan takes 10.1 GB of memory; no machine offers more than 10.0 GB");
  EndWithAllWorkers(first);
  EXPECT_EQ(State(second), pb::STARTING);
  EXPECT_EQ(State(small), pb::STARTING);
  EXPECT_EQ(State(never), pb::QUEUED);
  EXPECT_EQ(state_.Nodes().nodes(0).used_memory_bytes(), 5'500'000'000);
}

TEST_F(SchedulerStateTest, TheLastAttemptFailsTheJob) {
  const int64_t job = RunTwo(2);
  for (const uint64_t attempt : {1, 2}) {
    Failed(1, job, 0, absl::StatusCode::kInternal, "the device fell off", attempt);
    Exit(1, job, 0, 1, 0, attempt);
    Exit(2, job, 1, 0, SIGTERM, attempt);
  }
  EXPECT_EQ(State(job), pb::FAILED);
  EXPECT_EQ(Message(job), "worker 0 on daemon 'd0': the device fell off");
  EXPECT_EQ(state_.Find(job)->attempt(), 2);
  EXPECT_EQ(state_.Find(job)->attempts(), 2);
}

TEST_F(SchedulerStateTest, WhatIsWrongWithTheJobItselfIsNotTriedAgain) {
  const int64_t job = RunTwo(5);
  Failed(1, job, 0, absl::StatusCode::kInvalidArgument, "the data has no labels");
  EXPECT_EQ(State(job), pb::FAILED);
}

TEST_F(SchedulerStateTest, AComplaintThatNothingExplainsIsTriedAgainToo) {
  const int64_t job = RunTwo(2);
  Failed(1, job, 0, absl::StatusCode::kUnavailable, "process 1: connection lost");
  Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(1));
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1", "2:stop 1"));
  Exit(1, job, 0, 1);
  Exit(2, job, 1, 0, SIGTERM);
  EXPECT_EQ(State(job), pb::STARTING);
}

TEST_F(SchedulerStateTest, AJobIsCancelledWhileItIsStoppedForAnotherAttempt) {
  const int64_t job = RunTwo(2);
  Exit(2, job, 1, 0, SIGKILL);
  EXPECT_OK(state_.Cancel(job, /*gently=*/false, now_, effects_));
  Exit(1, job, 0, 0, SIGTERM);
  EXPECT_EQ(State(job), pb::CANCELLED);
  EXPECT_THAT(Events(), ElementsAre("CANCELLED"));
}

TEST_F(SchedulerStateTest, AJobThatIsTriedAgainComesBeforeLaterOnes) {
  const int64_t job = RunTwo(2), next = Submit(2, 1);
  Exit(1, job, 0, 1);
  Exit(2, job, 1, 1);
  EXPECT_EQ(State(job), pb::STARTING);
  EXPECT_EQ(State(next), pb::QUEUED);
}

// --- Cancel, daemons' names, logs ---

TEST_F(SchedulerStateTest, CancelStopsARunningJobAndDropsAQueuedOne) {
  const int64_t running = RunTwo(), queued = Submit(1, 1), next = Submit(1, 1);
  EXPECT_OK(state_.Cancel(queued, /*gently=*/false, now_, effects_));
  EXPECT_THAT(Messages(), IsEmpty());
  EXPECT_OK(state_.Cancel(running, /*gently=*/false, now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("1:stop 1", "2:stop 1"));
  Exit(1, running, 0, 0, SIGTERM);
  EXPECT_EQ(State(running), pb::CANCELLED) << "its death was ours";
  EXPECT_EQ(State(next), pb::STARTING);
  EXPECT_THAT(state_.Cancel(running, /*gently=*/false, now_, effects_),
              StatusIs(absl::StatusCode::kFailedPrecondition, "job 1 has ended: CANCELLED"));
  EXPECT_THAT(state_.Cancel(9, /*gently=*/false, now_, effects_),
              StatusIs(absl::StatusCode::kNotFound, "there is no job 9"));
}

TEST_F(SchedulerStateTest, AGentleCancelAsksTheWorkersAndTheJobIsCancelledWhenTheyAreDone) {
  const int64_t running = RunTwo(), queued = Submit(1, 1);
  EXPECT_OK(state_.Cancel(running, /*gently=*/true, now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("1:end 1/0", "2:end 1/1"));
  EXPECT_EQ(State(running), pb::RUNNING);
  EXPECT_OK(state_.Cancel(queued, /*gently=*/true, now_, effects_)) << "there is nobody to ask";
  EXPECT_EQ(State(queued), pb::CANCELLED);
  Finished(1, running, 0);
  Finished(2, running, 1);
  EXPECT_EQ(State(running), pb::CANCELLED);
  EXPECT_EQ(Message(running), "stopped on request");
  EXPECT_THAT(Messages(), ElementsAre("1:dismiss 1/0", "2:dismiss 1/1"));
}

TEST_F(SchedulerStateTest, AJobThatIsAskedToStopIsNotTriedAgain) {
  const int64_t job = RunTwo(/*attempts=*/3);
  EXPECT_OK(state_.Cancel(job, /*gently=*/true, now_, effects_));
  Exit(1, job, 0, 0, SIGKILL);
  EXPECT_EQ(State(job), pb::FAILED);
}

TEST_F(SchedulerStateTest, AJobBetweenTwoAttemptsIsCancelledAtOnceHoweverGently) {
  const int64_t job = RunTwo(/*attempts=*/3);
  Exit(1, job, 0, 0, SIGKILL);
  EXPECT_EQ(State(job), pb::RUNNING) << "its other worker has not exited";
  EXPECT_OK(state_.Cancel(job, /*gently=*/true, now_, effects_));
  EXPECT_EQ(State(job), pb::CANCELLED);
}

TEST_F(SchedulerStateTest, WhatWorkersNoticeIsAnEventOfTheJob) {
  const int64_t job = RunTwo();
  pb::FromWorker message;
  message.mutable_notice()->set_text("wrote /c/step-000000005");
  message.mutable_notice()->set_saved_step(5);
  Report(1, job, 0, message);
  ASSERT_EQ(effects_.events.size(), 1u);
  EXPECT_EQ(effects_.events[0].second.notice().text(), "wrote /c/step-000000005");
  EXPECT_EQ(effects_.events[0].second.notice().saved_step(), 5);
}

// Containers of one machine, or two machines whose administrators chose one name.
TEST_F(SchedulerStateTest, DaemonsOfOneHostNameThatShareNoMemoryAreTwoHosts) {
  AddDaemon("a", 1, 12, "h", {}, "here");
  AddDaemon("b", 1, 13, "h", {}, "there");
  const int64_t one_host = Submit(2, 1);
  EXPECT_EQ(State(one_host), pb::QUEUED);
  EXPECT_EQ(state_.List()[0].message(), "host 0 of the plan takes 2 cpu devices; no machine offers more than 1");
  const int64_t two_hosts = Submit(2, 1, "cpu", /*hosts=*/2);
  EXPECT_EQ(State(two_hosts), pb::STARTING);
}

TEST_F(SchedulerStateTest, TwoDaemonsCannotShareAName) {
  AddDaemon("d0", 1, 10);
  pb::DaemonHello hello;
  hello.set_name("d0");
  hello.set_host("h2");
  hello.set_memory("m");
  hello.set_pid(11);
  hello.set_incarnation(11);
  EXPECT_THAT(
      state_.DaemonHello(50, hello, now_, effects_),
      StatusIs(absl::StatusCode::kAlreadyExists, "the name 'd0' is taken by the daemon with pid 10 on host 'h'"));
}

TEST_F(SchedulerStateTest, LogsComeFromAllDaemonsAlsoAfterTheEnd) {
  const int64_t job = RunTwo();
  Exit(2, job, 1, 1);
  Messages();
  EXPECT_OK(state_.QueryLogs(5, AskLogs(job), now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("1:logs 1/0", "2:logs 1/1"));
  pb::FromDaemon answer;
  answer.mutable_logs()->set_request(5);
  answer.mutable_logs()->mutable_log()->set_process(1);
  answer.mutable_logs()->mutable_log()->set_text("bye");
  state_.DaemonMessage(2, answer, now_, effects_);
  EXPECT_THAT(effects_.logs, IsEmpty());
  state_.SessionEnded(1, now_, effects_);
  ASSERT_THAT(effects_.logs, SizeIs(1));
  EXPECT_EQ(effects_.logs[0].first, 5);
  EXPECT_EQ(effects_.logs[0].second.logs(0).text(), "(its daemon was lost)\n");
  EXPECT_EQ(effects_.logs[0].second.logs(1).text(), "bye");
}

TEST_F(SchedulerStateTest, AQueryOfLogsEndsThoughADaemonDoesNotAnswer) {
  const int64_t job = RunTwo();
  EXPECT_OK(state_.QueryLogs(5, AskLogs(job), now_, effects_));
  for (int i = 0; i < 5; ++i) Heartbeat(1), Heartbeat(2), Advance(absl::Seconds(1));
  ASSERT_THAT(effects_.logs, SizeIs(1));
  EXPECT_EQ(effects_.logs[0].second.logs(1).text(), "(its daemon did not answer within 5s)\n");
}

TEST_F(SchedulerStateTest, AllWorkersAreAskedWhatTheyWaitFor) {
  const int64_t job = RunTwo();
  EXPECT_OK(state_.Diagnose(5, job, now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("1:diagnose 1/0 as 5", "2:diagnose 1/1 as 5"));
  Waits(1, job, 5, 0);
  Waits(1, job, 5, 0);  // again
  Waits(2, job, 4, 1);  // to another question
  EXPECT_THAT(effects_.diagnoses, IsEmpty());
  Waits(2, job, 5, 1);
  ASSERT_THAT(effects_.diagnoses, SizeIs(1));
  EXPECT_EQ(effects_.diagnoses[0].first, 5);
  EXPECT_THAT(effects_.diagnoses[0].second, AllOf(HasSubstr("rank 0 (cpu:0, process 0): its process idles"),
                                                  HasSubstr("rank 1 (cpu:0, process 1): its process idles")));
}

TEST_F(SchedulerStateTest, AWorkerThatDoesNotSayWhatItWaitsForIsNamed) {
  const int64_t job = RunTwo();
  EXPECT_OK(state_.Diagnose(5, job, now_, effects_));
  Waits(1, job, 5, 0);
  Advance(absl::Milliseconds(1400));
  EXPECT_THAT(effects_.diagnoses, IsEmpty());
  Advance(absl::Milliseconds(100));
  ASSERT_THAT(effects_.diagnoses, SizeIs(1));
  EXPECT_THAT(effects_.diagnoses[0].second, HasSubstr("process 1 (pid 101 on daemon 'd1') does not answer"));
}

TEST_F(SchedulerStateTest, AQuestionOfAJobThatEndsIsAnsweredWithHow) {
  const int64_t job = RunTwo();
  EXPECT_OK(state_.Diagnose(5, job, now_, effects_));
  Exit(2, job, 1, 0, SIGKILL);
  Advance(absl::ZeroDuration());
  ASSERT_THAT(effects_.diagnoses, SizeIs(1));
  EXPECT_THAT(effects_.diagnoses[0].second, HasSubstr("was killed by signal 9"));
  EXPECT_THAT(state_.Diagnose(6, job, now_, effects_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("job 1 does not run: FAILED: worker 1")));
  EXPECT_THAT(state_.Diagnose(7, 9, now_, effects_), StatusIs(absl::StatusCode::kNotFound, "there is no job 9"));
}

TEST_F(SchedulerStateTest, AStallIsToldWithWhatAllWaitFor) {
  const int64_t job = RunTwo();
  Stalled(2, job, 1);
  EXPECT_THAT(Messages(), ElementsAre("1:diagnose 1/0 as -1", "2:diagnose 1/1 as -1"));
  Stalled(1, job, 0);
  EXPECT_THAT(Messages(), IsEmpty()) << "it is being found out";
  Waits(1, job, -1, 0);
  Waits(2, job, -1, 1);
  ASSERT_THAT(effects_.events, SizeIs(1));
  EXPECT_THAT(effects_.events[0].second.stall().text(),
              AllOf(HasSubstr("nothing moved in process 1 for 60 s: "), HasSubstr("rank 0")));
  EXPECT_EQ(State(job), pb::RUNNING);
  EXPECT_THAT(effects_.diagnoses, IsEmpty()) << "nobody has asked";
}

TEST_F(SchedulerStateTest, AStallEndsAJobThatWantsIt) {
  const int64_t job = RunTwo(/*attempts=*/1, /*abort=*/true);
  Stalled(2, job, 1);
  Waits(1, job, -1, 0);
  Waits(2, job, -1, 1, /*acts=*/1);
  EXPECT_EQ(State(job), pb::RUNNING) << "it goes on";
  ASSERT_THAT(effects_.events, SizeIs(1));
  EXPECT_THAT(effects_.events[0].second.stall().text(), HasSubstr("for 3 s, now it goes on: "));
  Stalled(2, job, 1);
  Waits(1, job, -2, 0);
  Waits(2, job, -2, 1);
  EXPECT_EQ(State(job), pb::FAILED);
  EXPECT_THAT(Message(job), HasSubstr("nothing moved in process 1 for 3 s: "));
}

// --- Daemons that come back ---

TEST_F(SchedulerStateTest, ADaemonThatComesBackGoesOnWithItsWorkers) {
  const int64_t job = RunTwo();
  state_.SessionEnded(2, now_, effects_);
  Heartbeat(1), Advance(absl::Seconds(1));
  const SessionId again = AddDaemon("d1", 1, 12, "h", {Running(job, 1)});
  ASSERT_THAT(effects_.messages, SizeIs(1)) << "nothing else is to be said";
  ASSERT_THAT(effects_.messages[0].second.welcome().keep(), SizeIs(1));
  Heartbeat(1), Heartbeat(again), Advance(absl::Seconds(2));
  EXPECT_EQ(State(job), pb::RUNNING);
  const int64_t next = Submit(1, 1);
  EXPECT_EQ(State(next), pb::QUEUED) << "its devices are still taken";
  Finished(1, job, 0);
  Finished(again, job, 1);
  EXPECT_EQ(State(job), pb::FINISHED);
}

TEST_F(SchedulerStateTest, ADaemonMayOpenAnotherSessionBeforeTheFirstHasEnded) {
  const int64_t job = RunTwo();
  AddDaemon("d1", 1, 12, "h", {Running(job, 1)});
  ASSERT_THAT(effects_.closed_sessions, SizeIs(1));
  EXPECT_EQ(effects_.closed_sessions[0].first, 2);
  state_.SessionEnded(2, now_, effects_);  // as its connection closes now
  Heartbeat(1), Heartbeat(3), Advance(absl::Seconds(2));
  EXPECT_EQ(State(job), pb::RUNNING);
}

TEST_F(SchedulerStateTest, WhatADaemonDidNotHearItIsToldAgain) {
  AddDaemon("d0", 1, 10);
  AddDaemon("d1", 1, 12);
  const int64_t job = Submit(2, 1);
  Messages();
  state_.SessionEnded(2, now_, effects_);
  const SessionId second = AddDaemon("d1", 1, 12);  // without a worker: it was never told to start one
  EXPECT_THAT(Messages(), ElementsAre("3:start 1/1"));
  Hello(1, job, 0);
  state_.SessionEnded(1, now_, effects_);
  Hello(second, job, 1);
  Messages();
  AddDaemon("d0", 1, 10, "h", {Running(job, 0, /*started=*/false)});
  EXPECT_THAT(Messages(), ElementsAre("4:go 1/0"));
  Finished(4, job, 0);
  state_.SessionEnded(4, now_, effects_);
  Finished(second, job, 1);
  Messages();
  AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  EXPECT_THAT(Messages(), ElementsAre("5:dismiss 1/0"));
}

TEST_F(SchedulerStateTest, ADaemonThatWasAwayTooLongHasWorkersOfNobody) {
  const int64_t job = RunTwo();
  state_.SessionEnded(2, now_, effects_);
  Heartbeat(1), Advance(absl::Milliseconds(1500));
  EXPECT_EQ(State(job), pb::FAILED);
  effects_ = {};
  const SessionId again = AddDaemon("d1", 1, 12, "h", {Running(job, 1)});
  EXPECT_THAT(effects_.messages[0].second.welcome().keep(), IsEmpty()) << "so it kills them";
  Exit(again, job, 1, 0, SIGKILL);
  EXPECT_THAT(Message(job), HasSubstr("its connection closed"));
  EXPECT_EQ(State(Submit(1, 1)), pb::STARTING);
}

TEST_F(SchedulerStateTest, ADaemonThatWasRestartedHasLostWhatItRan) {
  const int64_t job = RunTwo(2);
  state_.SessionEnded(2, now_, effects_);
  AddDaemon("d1", 1, 15);
  Exit(1, job, 0, 0, SIGTERM);
  EXPECT_EQ(effects_.events[0].second.state().message(),
            "attempt 2 of 2 after: daemon 'd1' (pid 12) was lost: it was restarted (pid 15); it ran worker 1 of job 1");
  EXPECT_EQ(State(job), pb::STARTING);
}

TEST_F(SchedulerStateTest, AReportThatIsSaidTwiceCountsOnce) {
  const int64_t job = RunTwo();
  pb::FromDaemon report;
  report.set_number(1);
  report.mutable_report()->set_job(job);
  report.mutable_report()->set_attempt(1);
  report.mutable_report()->mutable_message()->mutable_fetched()->add_values()->mutable_value()->add_values(5);
  state_.DaemonMessage(1, report, now_, effects_);
  state_.SessionEnded(1, now_, effects_);
  const SessionId again = AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  state_.DaemonMessage(again, report, now_, effects_);
  EXPECT_THAT(Events(), ElementsAre("value 5"));
  EXPECT_EQ(effects_.acknowledged[again], 1) << "so that it is not said a third time";
}

// --- Another scheduler ---

TEST_F(SchedulerStateTest, ARestartedSchedulerGoesOnWithItsJobs) {
  const int64_t job = RunTwo();
  pb::FromDaemon done;
  done.set_number(3);
  done.mutable_report()->set_job(job);
  done.mutable_report()->set_attempt(1);
  done.mutable_report()->mutable_message()->mutable_phase_done();
  state_.DaemonMessage(1, done, now_, effects_);
  const int64_t queued = Submit(1, 1);
  Store();
  RestartScheduler();
  EXPECT_EQ(State(job), pb::RUNNING);
  EXPECT_EQ(State(queued), pb::QUEUED);
  const SessionId first = AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  EXPECT_EQ(State(queued), pb::QUEUED) << "the device is taken";
  Advance(absl::Seconds(2));
  const SessionId second = AddDaemon("d1", 1, 12, "h", {Running(job, 1)});
  state_.DaemonMessage(first, done, now_, effects_);  // it does not know whether it was stored
  PhaseDone(second, job, 1);
  EXPECT_THAT(Events(), ElementsAre("phase 0")) << "it was counted once, and events go on";
  Finished(first, job, 0);
  Finished(second, job, 1);
  EXPECT_EQ(State(job), pb::FINISHED);
  Exit(first, job, 0, 0);
  EXPECT_EQ(State(queued), pb::STARTING);
  EXPECT_EQ(Submit(1, 1), 3) << "numbers are not used twice";
}

TEST_F(SchedulerStateTest, ARestartedSchedulerAsksWorkersToStopThatMayNotHaveHeardIt) {
  const int64_t job = RunTwo();
  EXPECT_OK(state_.Cancel(job, /*gently=*/true, now_, effects_));
  Store();
  RestartScheduler();
  const SessionId first = AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  const SessionId second = AddDaemon("d1", 1, 12, "h", {Running(job, 1)});
  EXPECT_THAT(Messages(), ElementsAre("3:end 1/0", "4:end 1/1"));
  Finished(first, job, 0);
  Finished(second, job, 1);
  EXPECT_EQ(State(job), pb::CANCELLED);
  Store();
  RestartScheduler();
  AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  EXPECT_THAT(Messages(), ElementsAre("5:dismiss 1/0")) << "it is not killed: its peer may still read its registers";
}

TEST_F(SchedulerStateTest, ADaemonThatDoesNotFindTheRestartedSchedulerIsLost) {
  const int64_t job = RunTwo(2);
  RestartScheduler();
  AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  for (int i = 0; i < 9; ++i) Heartbeat(1), Heartbeat(3), Advance(absl::Seconds(1));
  EXPECT_EQ(State(job), pb::RUNNING);
  Heartbeat(3), Advance(absl::Seconds(1));
  EXPECT_THAT(Messages(), ElementsAre("3:stop 1"));
  Store();
  RestartScheduler();  // it is known that the job was being stopped, and why
  AddDaemon("d0", 1, 10, "h", {Running(job, 0)});
  EXPECT_THAT(Messages(), ElementsAre("4:stop 1"));
  Exit(4, job, 0, 0, SIGTERM);
  EXPECT_EQ(State(job), pb::QUEUED);
  EXPECT_EQ(effects_.events[0].second.state().message(),
            "attempt 2 of 2 after: daemon 'd1' (pid 12) was lost: it did not come back within 10s of the scheduler's "
            "restart; it ran worker 1 of job 1");
}

TEST_F(SchedulerStateTest, ADaemonThatComesBackWithoutAWorkerSaysSo) {
  const int64_t job = RunTwo();
  RestartScheduler();
  AddDaemon("d0", 1, 10);
  EXPECT_EQ(Message(job), "daemon 'd0' came back without worker 0 of job 1");
}

TEST_F(SchedulerStateTest, LogsOfAnEndedJobAreFoundByARestartedScheduler) {
  const int64_t job = RunTwo();
  Exit(1, job, 0, 1);
  Exit(2, job, 1, 0, SIGTERM);
  Store();
  RestartScheduler();
  AddDaemon("d0", 1, 10);
  EXPECT_OK(state_.QueryLogs(5, AskLogs(job), now_, effects_));
  EXPECT_THAT(Messages(), ElementsAre("3:logs 1/0"));
}

TEST_F(SchedulerStateTest, AfterARestartAJobThatThisVersionRefusesHasFailed) {
  StoredJob stored;
  stored.status.set_job(1);
  stored.valid = absl::InvalidArgumentError("the plan's SHA-256 is 00");
  state_.Restore({stored}, {}, now_, effects_);
  EXPECT_EQ(Message(1), "the restarted scheduler refuses the job: the plan's SHA-256 is 00");
}

TEST_F(SchedulerStateTest, AJobThatRanUnderVersion1OfTheStoreHasFailed) {
  StoredJob stored;
  stored.status.set_job(1);
  stored.status.set_state(pb::RUNNING);
  stored.spec = EmptyJob(1, 1);
  state_.Restore({stored}, {}, now_, effects_);
  EXPECT_EQ(Message(1), "the store does not say where the job ran");
}

// --- What is past ---

TEST_F(SchedulerStateTest, ATickLooksAtNoJobThatHasEnded) {
  constexpr int kEnded = 100'000;
  std::vector<StoredJob> jobs(kEnded);
  for (int i = 0; i < kEnded; ++i) {
    jobs[i].status.set_job(i + 1);
    jobs[i].status.set_state(i % 2 == 0 ? pb::FINISHED : pb::FAILED);
    jobs[i].workers.resize(1);
    jobs[i].workers[0].set_daemon("d0");
    jobs[i].workers[0].set_released(true);
  }
  state_.Restore(std::move(jobs), {}, now_, effects_);
  const SessionId d0 = AddDaemon("d0", 2);
  const int64_t job = Submit(1, 1);
  Submit(1, 1);
  Submit(1, 1);  // waits
  Hello(d0, job, 0);
  const int64_t before = state_.num_looks();
  for (int tick = 0; tick < 100; ++tick) {
    Heartbeat(d0);
    state_.Tick(now_, effects_);
    now_ += absl::Milliseconds(100);
  }
  EXPECT_EQ(state_.num_looks() - before, 100 * 3);
  EndWithAllWorkers(job);
  Submit(1, 1);
  EXPECT_LT(state_.num_looks() - before, 100 * 3 + 100) << "nor does placement";
  EXPECT_EQ(state_.List().size(), size_t{kEnded} + 4);
}

TEST_F(SchedulerStateTest, AJobIsForgottenWhenNothingOfItIsLeft) {
  const SessionId d0 = AddDaemon("d0", 1);
  const int64_t job = Submit(1, 1);
  Submit(1, 1);  // the newest, which waits
  EXPECT_FALSE(state_.Forget(job, effects_));
  EXPECT_OK(state_.Cancel(job, /*gently=*/false, now_, effects_));
  EXPECT_FALSE(state_.Forget(job, effects_)) << "its worker has not exited";
  Exit(d0, job, 0, 0, SIGTERM);
  effects_ = {};
  EXPECT_TRUE(state_.Forget(job, effects_));
  ASSERT_THAT(effects_.messages, SizeIs(1));
  EXPECT_EQ(effects_.messages[0].first, d0);
  EXPECT_EQ(effects_.messages[0].second.forget().job(), job);
  EXPECT_THAT(state_.Find(job).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no job 1")));
  EXPECT_TRUE(state_.HasEnded(job));
  EXPECT_EQ(state_.num_events(job), 0);
  state_.Tick(now_, effects_);
  EXPECT_TRUE(state_.Forget(job, effects_)) << "it is";
  EndWithAllWorkers(2);
  EXPECT_TRUE(state_.Forget(2, effects_));
  EXPECT_OK(state_.Find(2).status()) << "of the newest the number is still needed";
  EXPECT_EQ(Submit(1, 1), 3);
  EXPECT_TRUE(state_.Forget(2, effects_));
  EXPECT_FALSE(state_.Find(2).ok());
}

}  // namespace
}  // namespace oneflow
