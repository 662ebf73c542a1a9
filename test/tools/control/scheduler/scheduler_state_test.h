// A scheduler's state on a clock of the test's own.
#pragma once

#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/support/job_spec.h"
#include "tools/control/scheduler/state.h"

namespace oneflow::testing {

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

}  // namespace oneflow::testing
