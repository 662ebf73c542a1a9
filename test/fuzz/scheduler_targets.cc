#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "glog/logging.h"
#include "test/fuzz/script.pb.h"
#include "test/fuzz/target.h"
#include "test/tools/support/job_spec.h"
#include "tools/control/scheduler/spec.h"
#include "tools/control/scheduler/state.h"

namespace oneflow::testing {
namespace {

void RunSpec(absl::string_view input) {
  pb::JobSpec spec;
  if (!spec.ParseFromString(std::string(input))) return;
  if (ValidateSpec(spec).ok()) GangsOf(spec);
}

// What the service does with calls, without network and store.
class ScriptedScheduler {
 public:
  void Do(const pb::SchedulerStep& step) {
    switch (step.kind_case()) {
      case pb::SchedulerStep::kSubmit:
        return Submit(step.submit());
      case pb::SchedulerStep::kHello:
        return state_.DaemonHello(++sessions_, step.hello(), now_, effects_).IgnoreError();
      case pb::SchedulerStep::kMessage:
        return state_.DaemonMessage(step.session(), step.message(), now_, effects_);
      case pb::SchedulerStep::kEnded:
        return state_.SessionEnded(step.session(), now_, effects_);
      case pb::SchedulerStep::kCancel:
        return state_.Cancel(step.cancel().job(), step.cancel().gently(), now_, effects_).IgnoreError();
      case pb::SchedulerStep::kRetry:
        return Retry(step.retry().job());
      case pb::SchedulerStep::kLogs:
        return state_.QueryLogs(++requests_, step.logs(), now_, effects_).IgnoreError();
      case pb::SchedulerStep::kDiagnose:
        return state_.Diagnose(++requests_, step.diagnose().job(), now_, effects_).IgnoreError();
      case pb::SchedulerStep::kDrain:
        return state_.Drain(step.drain().node(), step.drain().undo(), now_, effects_).IgnoreError();
      case pb::SchedulerStep::kMilliseconds:
        now_ += absl::Milliseconds(step.milliseconds());
        return state_.Tick(now_, effects_);
      case pb::SchedulerStep::KIND_NOT_SET:
        return;
    }
  }

  // What anyone may ask for.
  void Look() const {
    for (const pb::JobStatus& job : state_.List()) {
      CHECK(state_.Find(job.job()).ok());
      CHECK(state_.Describe(job.job()).ok());
    }
    state_.Nodes();
  }

 private:
  void Submit(const pb::SubmitRequest& request) {
    if (!ValidateSpec(request.spec()).ok() || !ValidateWish(request).ok()) return;
    AcceptedSpec accepted = Accept(request.spec());
    accepted.user = request.user();
    accepted.priority = request.priority();
    const absl::StatusOr<int64_t> job = state_.Submit(accepted, now_, effects_);
    if (job.ok()) accepted_.emplace(*job, std::move(accepted));
  }

  void Retry(int64_t job) {
    const auto found = accepted_.find(job);
    if (found != accepted_.end()) state_.Retry(job, found->second, now_, effects_).IgnoreError();
  }

  SchedulerState state_;
  absl::Time now_ = absl::UnixEpoch();
  Effects effects_;
  std::map<int64_t, AcceptedSpec> accepted_;  // by job
  SessionId sessions_ = 0;
  int64_t requests_ = 0;
};

void RunScript(absl::string_view input) {
  pb::SchedulerScript script;
  if (!script.ParseFromString(std::string(input))) return;
  ScriptedScheduler scheduler;
  for (const pb::SchedulerStep& step : script.steps()) {
    scheduler.Do(step);
    scheduler.Look();
  }
}

pb::WorkerReport& AddReport(int64_t session, int process, pb::SchedulerScript& script) {
  pb::SchedulerStep& step = *script.add_steps();
  step.set_session(session);
  pb::WorkerReport& report = *step.mutable_message()->mutable_report();
  report.set_job(1);
  report.set_attempt(1);
  report.set_process(process);
  return report;
}

// A job of two processes on two daemons, from its begin to its end.
pb::SchedulerScript JobOfTwo() {
  pb::SchedulerScript script;
  for (const int session : {1, 2}) {
    pb::DaemonHello& hello = *script.add_steps()->mutable_hello();
    hello.set_name(session == 1 ? "a" : "b");
    hello.set_host("h");
    hello.set_memory("m");
    hello.set_pid(10 + session);
    hello.set_cpu_devices(1);
  }
  pb::SubmitRequest& submit = *script.add_steps()->mutable_submit();
  *submit.mutable_spec() = EmptyJob(2, 1);
  submit.set_user("someone");
  for (const int process : {0, 1}) {
    pb::WorkerHello& hello = *AddReport(process + 1, process, script).mutable_message()->mutable_hello();
    hello.set_pid(100);
    hello.set_peer_address("127.0.0.1:1");
  }
  pb::WorkerFetched& fetched = *AddReport(1, 0, script).mutable_message()->mutable_fetched();
  fetched.add_values()->mutable_value()->add_values(1);
  AddReport(1, 0, script).mutable_message()->mutable_phase_done();
  for (const int process : {0, 1}) AddReport(process + 1, process, script).mutable_message()->mutable_finished();
  for (const int process : {0, 1}) {
    pb::SchedulerStep& step = *script.add_steps();
    step.set_session(process + 1);
    pb::WorkerExit& exited = *step.mutable_message()->mutable_exited();
    exited.set_job(1);
    exited.set_attempt(1);
    exited.set_process(process);
    exited.set_pid(100);
  }
  script.add_steps()->set_milliseconds(5000);
  script.add_steps()->mutable_logs()->set_job(1);
  script.add_steps()->mutable_diagnose()->set_job(1);
  script.add_steps()->mutable_drain()->set_node("a");
  script.add_steps()->mutable_retry()->set_job(1);
  script.add_steps()->mutable_cancel()->set_job(1);
  return script;
}

}  // namespace

void AddSchedulerTargets(std::vector<FuzzTarget>& targets) {
  targets.push_back({.name = "job_spec",
                     .seeds = {EmptyJob(2, 1).SerializeAsString(), EmptyJob(4, 2, 2).SerializeAsString()},
                     .message = std::make_shared<pb::JobSpec>(),
                     .run = RunSpec});
  targets.push_back({.name = "scheduler",
                     .seeds = {JobOfTwo().SerializeAsString()},
                     .message = std::make_shared<pb::SchedulerScript>(),
                     .run = RunScript});
}

}  // namespace oneflow::testing
