#include "tools/control/scheduler/core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/code_choices.h"
#include "glog/logging.h"
#include "tools/control/scheduler/spec.h"

namespace oneflow {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
// How soon a watcher whose client has gone away is noticed; events are not delayed by it.
constexpr absl::Duration kWatcherCheck = absl::Seconds(1);
constexpr int kEventsPerRead = 256;
constexpr int64_t kEventsForCodes = 100'000;  // at which a description looks

bool ChoosesCodes(const pb::JobSpec& spec) {
  return std::any_of(spec.phases().begin(), spec.phases().end(),
                     [](const pb::Phase& phase) { return phase.train().has_choice(); });
}

// Adds the codes of the last choice among the events, the last one first. Whether there are no more of it before these.
bool TakeCodes(const std::vector<pb::JobEvent>& events, std::vector<pb::FetchedValue>& codes) {
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (!event->has_fetched()) continue;
    const pb::FetchedValue& value = event->fetched();
    if (!codes.empty() && value.step() < codes.back().step()) return true;
    if (value.plan() == kChoicePlan) codes.push_back(value);
  }
  return false;
}

absl::Status Stopping() { return absl::UnavailableError("the scheduler is stopping"); }

}  // namespace

SchedulerCore::SchedulerCore(std::unique_ptr<Store> store, const SchedulerLimits& limits, const EndedJobsRule& keep)
    : heartbeat_(limits.heartbeat), state_(limits), writer_(std::move(store), keep, clock_, *this) {}

// --- from the beginning to the end ---

absl::Status SchedulerCore::Restore() {
  OF_ASSIGN_OR_RETURN(std::vector<StoredJob> jobs, writer_.LoadJobs());
  OF_ASSIGN_OR_RETURN(auto daemons, writer_.LoadDaemons());
  absl::MutexLock lock(&mu_);
  for (const StoredJob& job : jobs) {
    num_stored_[job.status.job()] = job.next_sequence;
    board_.Set(job.status);
    if (job.status.state() >= pb::FINISHED) continue;
    readers_.Expect(job.status.job(), 0, clock_.Now());  // whoever read it of the former scheduler
    metrics_.OnRestored(job.spec, job.status);
  }
  Effects effects;
  state_.Restore(std::move(jobs), std::move(daemons), clock_.Now(), effects);
  writer_.Perform(std::move(effects));
  return absl::OkStatus();
}

void SchedulerCore::Start() {
  writer_.Start();
  ticker_ = std::thread([this] { TickLoop(); });
}

void SchedulerCore::Stop() {
  absl::MutexLock lock(&mu_);
  stopping_ = true;
  for (const auto& [id, session] : sessions_) {
    session->closed_because = Stopping();
    session->cancel();
  }
}

void SchedulerCore::End() {
  if (ticker_.joinable()) ticker_.join();
  writer_.Finish();
}

absl::Status SchedulerCore::Wait() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&stopping_));
  return writer_.failure();
}

void SchedulerCore::TickLoop() {
  absl::MutexLock lock(&mu_);
  while (!mu_.AwaitWithTimeout(absl::Condition(&stopping_), kTick)) {
    Effects effects;
    state_.Tick(clock_.Now(), effects);
    writer_.Perform(std::move(effects));
  }
}

// --- callers ---

absl::Status SchedulerCore::Decide(absl::FunctionRef<absl::Status(Effects& effects)> decide) {
  int64_t place = 0;
  {
    absl::MutexLock lock(&mu_);
    Effects effects;
    OF_RETURN_IF_ERROR(decide(effects));
    place = writer_.Perform(std::move(effects));
  }
  return writer_.AwaitStored(place);
}

absl::Status SchedulerCore::MayChange(int64_t job, May may) {
  OF_ASSIGN_OR_RETURN(const pb::JobStatus status, state_.Find(job));
  return Annotate(may(status), absl::StrCat("job ", job));
}

absl::StatusOr<int64_t> SchedulerCore::Submit(AcceptedSpec accepted) {
  int64_t number = 0;
  OF_RETURN_IF_ERROR(Decide([&](Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) -> absl::Status {
    OF_ASSIGN_OR_RETURN(number, state_.Submit(std::move(accepted), clock_.Now(), effects));
    return absl::OkStatus();
  }));
  return number;
}

absl::Status SchedulerCore::Cancel(int64_t job, bool gently, May may) {
  return Decide([&](Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) -> absl::Status {
    OF_RETURN_IF_ERROR(MayChange(job, may));
    return state_.Cancel(job, gently, clock_.Now(), effects);
  });
}

absl::Status SchedulerCore::Retry(int64_t job, May may) {
  {
    absl::MutexLock lock(&mu_);
    OF_RETURN_IF_ERROR(MayChange(job, may));
  }
  absl::StatusOr<pb::JobSpec> spec = writer_.LoadSpec(job, /*with_plan=*/true);
  if (absl::IsNotFound(spec.status())) return absl::FailedPreconditionError(spec.status().message());
  const absl::Status valid = spec.ok() ? ValidateSpec(*spec) : spec.status();
  if (!valid.ok()) return Annotate(valid, absl::StrCat("job ", job));
  AcceptedSpec accepted = Accept(*std::move(spec));
  return Decide([&](Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return state_.Retry(job, std::move(accepted), clock_.Now(), effects);
  });
}

absl::Status SchedulerCore::Drain(const std::string& node, bool undo) {
  return Decide([&](Effects& effects)
                    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return state_.Drain(node, undo, clock_.Now(), effects); });
}

absl::Status SchedulerCore::Save(int64_t job, May may) {
  absl::MutexLock lock(&mu_);
  OF_RETURN_IF_ERROR(MayChange(job, may));
  Effects effects;
  absl::Status told = state_.Save(job, effects);
  writer_.Perform(std::move(effects));
  return told;
}

std::vector<pb::JobStatus> SchedulerCore::List() {
  absl::MutexLock lock(&mu_);
  return state_.List();
}

pb::NodesReply SchedulerCore::NodesWithJobs() {
  absl::MutexLock lock(&mu_);
  return state_.Nodes();
}

template <typename T>
absl::StatusOr<T> SchedulerCore::Ask(Answers<T> SchedulerCore::*answers,
                                     absl::FunctionRef<absl::Status(int64_t number, Effects& effects)> ask) {
  absl::MutexLock lock(&mu_);
  Answers<T>& of = this->*answers;
  const int64_t number = ++of.last;
  Effects effects;
  OF_RETURN_IF_ERROR(ask(number, effects));
  writer_.Perform(std::move(effects));
  // The state answers within its own limit, whatever daemons do.
  const auto answered = [this, &of, number]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || of.come.contains(number); };
  mu_.Await(absl::Condition(&answered));
  if (!of.come.contains(number)) return Stopping();
  return std::move(of.come.extract(number).mapped());
}

absl::StatusOr<pb::LogsReply> SchedulerCore::Logs(const pb::LogsRequest& request) {
  return Ask(&SchedulerCore::logs_, [&](int64_t number, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return state_.QueryLogs(number, request, clock_.Now(), effects);
  });
}

absl::StatusOr<std::string> SchedulerCore::Diagnose(int64_t job) {
  return Ask(&SchedulerCore::diagnoses_, [&](int64_t number, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return state_.Diagnose(number, job, clock_.Now(), effects);
  });
}

// --- watchers ---

SchedulerCore::Watcher::Watcher(SchedulerCore& core, int64_t job, int64_t next)
    : core_(core), number_(++core.num_watchers_) {
  absl::MutexLock lock(&core_.mu_);
  reader_ = core_.readers_.Enter(job, next);
}

SchedulerCore::Watcher::~Watcher() {
  absl::MutexLock lock(&core_.mu_);
  core_.readers_.Leave(reader_, core_.clock_.Now());
  --core_.num_watchers_;
}

absl::StatusOr<std::vector<pb::JobEvent>> SchedulerCore::Watcher::Await(absl::FunctionRef<bool()> is_gone) {
  OF_ASSIGN_OR_RETURN(const int64_t stored, core_.AwaitEvents(reader_->job, reader_->next, is_gone));
  if (stored <= reader_->next) return std::vector<pb::JobEvent>();
  return core_.Events(reader_->job, reader_->next, kEventsPerRead);
}

void SchedulerCore::Watcher::OnRead(const std::vector<pb::JobEvent>& events) {
  absl::MutexLock lock(&core_.mu_);
  EventReaders::Move(reader_, events.back().sequence() + 1);
}

absl::StatusOr<int64_t> SchedulerCore::AwaitEvents(int64_t job, int64_t next, absl::FunctionRef<bool()> is_gone) {
  absl::MutexLock lock(&mu_);
  OF_RETURN_IF_ERROR(state_.Find(job).status());
  const auto more = [this, job, next]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || NumStored(job) > next || EndIsTold(job);
  };
  while (!mu_.AwaitWithTimeout(absl::Condition(&more), kWatcherCheck)) {
    if (is_gone()) return absl::CancelledError("the watcher is gone");
  }
  if (NumStored(job) <= next && !EndIsTold(job)) return Stopping();
  return NumStored(job);
}

bool SchedulerCore::EndIsTold(int64_t job) { return state_.HasEnded(job) && NumStored(job) == state_.num_events(job); }

int64_t SchedulerCore::NumStored(int64_t job) {
  const auto found = num_stored_.find(job);
  return found == num_stored_.end() ? 0 : found->second;
}

// --- daemons ---

absl::StatusOr<SessionId> SchedulerCore::Register(const pb::DaemonHello& hello, Session& session) {
  absl::MutexLock lock(&mu_);
  const SessionId id = ++last_session_;
  sessions_[id] = &session;
  Effects effects;
  const absl::Status status = stopping_ ? Stopping() : state_.DaemonHello(id, hello, clock_.Now(), effects);
  writer_.Perform(std::move(effects));
  if (status.ok()) return id;
  sessions_.erase(id);
  return status;
}

absl::Status SchedulerCore::Unregister(SessionId id, Session& session) {
  absl::MutexLock lock(&mu_);
  sessions_.erase(id);
  session.outbox.Close();
  Effects effects;
  // While stopping, jobs are left as they are: the next scheduler goes on with them.
  if (!stopping_) state_.SessionEnded(id, clock_.Now(), effects);
  writer_.Perform(std::move(effects));
  return session.closed_because.ok() ? absl::CancelledError("its connection closed") : session.closed_because;
}

void SchedulerCore::OnMessage(SessionId id, const pb::FromDaemon& message) {
  absl::MutexLock lock(&mu_);
  if (stopping_) return;
  Effects effects;
  state_.DaemonMessage(id, message, clock_.Now(), effects);
  writer_.Perform(std::move(effects));
}

absl::Time SchedulerCore::OnHeard(absl::Time before) {
  metrics_.OnHeard(clock_.Now() - before - heartbeat_);
  return clock_.Now();
}

// --- those who look ---

absl::StatusOr<pb::DescribeReply> SchedulerCore::Describe(int64_t job, bool with_plan) {
  pb::DescribeReply reply;
  {
    absl::MutexLock lock(&mu_);
    OF_ASSIGN_OR_RETURN(reply, state_.Describe(job));
  }
  absl::StatusOr<pb::JobSpec> spec = writer_.LoadSpec(job, with_plan);
  if (!spec.ok() && !absl::IsNotFound(spec.status())) return spec.status();
  if (!spec.ok()) return reply;
  *reply.mutable_spec() = OnLayout(*std::move(spec), reply.status().fallback());
  if (ChoosesCodes(reply.spec())) {
    OF_ASSIGN_OR_RETURN(const std::vector<pb::FetchedValue> codes, LastCodes(job));
    reply.mutable_codes()->Add(codes.begin(), codes.end());
  }
  return reply;
}

absl::StatusOr<std::vector<pb::FetchedValue>> SchedulerCore::LastCodes(int64_t job) {
  std::vector<pb::FetchedValue> codes;  // the last one first
  const int64_t num_events = NumEvents(job);
  for (int64_t end = num_events; end > std::max<int64_t>(num_events - kEventsForCodes, 0); end -= kEventsPerRead) {
    const int64_t from = std::max<int64_t>(end - kEventsPerRead, 0);
    OF_ASSIGN_OR_RETURN(std::vector<pb::JobEvent> events, writer_.LoadEvents(job, from, kEventsPerRead));
    std::erase_if(events, [end](const pb::JobEvent& event) { return event.sequence() >= end; });
    if (TakeCodes(events, codes)) break;
  }
  std::reverse(codes.begin(), codes.end());
  return codes;
}

absl::StatusOr<std::vector<pb::JobEvent>> SchedulerCore::Events(int64_t job, int64_t from, int limit) {
  if (NumEvents(job) <= from) return std::vector<pb::JobEvent>();
  OF_ASSIGN_OR_RETURN(std::vector<pb::JobEvent> events, writer_.LoadEvents(job, from, limit));
  if (!events.empty()) return events;
  return absl::FailedPreconditionError(absl::StrCat("the events of job ", job, " are no longer kept"));
}

int64_t SchedulerCore::NumEvents(int64_t job) {
  absl::MutexLock lock(&mu_);
  return NumStored(job);
}

std::vector<pb::Node> SchedulerCore::Nodes() {
  absl::MutexLock lock(&mu_);
  return state_.NodesWithoutJobs();
}

void SchedulerCore::WriteMetrics(Families& families) {
  WriteJobCounts(board_.counts(), families);
  metrics_.Write(families, clock_.Now());
  WriteNodes(Nodes(), families);
}

// --- the writer ---

void SchedulerCore::OnStored(const Effects& effects, absl::Duration took) {
  metrics_.OnStored(effects, took);
  for (const pb::JobStatus& job : effects.changed_jobs) board_.Set(job);
}

void SchedulerCore::Tell(Effects& effects, const std::vector<LostStart>& lost) {
  absl::MutexLock lock(&mu_);
  for (const pb::JobStatus& job : effects.changed_jobs) {
    LOG(INFO) << "job " << job.job() << " '" << job.name() << "': " << pb::JobState_Name(job.state())
              << (job.message().empty() ? "" : ": ") << job.message();
  }
  for (const auto& [job, event] : effects.events) num_stored_[job] = event.sequence() + 1;
  TellSessions(effects);
  for (auto& [request, reply] : effects.logs) logs_.come[request] = std::move(reply);
  for (auto& [request, text] : effects.diagnoses) diagnoses_.come[request] = std::move(text);
  Effects ends;
  for (const LostStart& start : lost) state_.Abandon(start, clock_.Now(), ends);
  writer_.Perform(std::move(ends));
}

void SchedulerCore::TellSessions(Effects& effects) {
  for (const auto& [session, number] : effects.acknowledged) {
    pb::ToDaemon message;
    message.mutable_stored()->set_number(number);
    effects.messages.emplace_back(session, std::move(message));
  }
  for (auto& [session, message] : effects.messages) {
    if (const auto found = sessions_.find(session); found != sessions_.end()) {
      found->second->outbox.Push(std::move(message));
    }
  }
  for (auto& [session, reason] : effects.closed_sessions) {
    if (const auto found = sessions_.find(session); found != sessions_.end()) {
      found->second->closed_because = reason;
      found->second->cancel();
    }
  }
}

void SchedulerCore::OnStoreFailed(const absl::Status& status) {
  LOG(ERROR) << "the scheduler ends: " << status.message();
  absl::MutexLock lock(&mu_);
  stopping_ = true;
}

int64_t SchedulerCore::FirstUnread(int64_t job) {
  absl::MutexLock lock(&mu_);
  return readers_.FirstUnread(job, clock_.Now());
}

EffectWriter::Owner::Forgetting SchedulerCore::Forget(int64_t job) {
  {
    absl::MutexLock lock(&mu_);
    if (writer_.HasPending()) return Forgetting::kLater;  // what is still to be stored of it comes first
    Effects effects;
    if (!state_.Forget(job, effects)) return Forgetting::kNotYet;
    writer_.Perform(std::move(effects));
    if (state_.Find(job).ok()) return Forgetting::kForgotten;  // the newest of all jobs keeps its status
    num_stored_.erase(job);
  }
  board_.Remove(job);
  return Forgetting::kForgotten;
}

}  // namespace oneflow
