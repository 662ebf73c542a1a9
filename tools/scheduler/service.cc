#include "tools/scheduler/service.h"

#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "glog/logging.h"
#include "proto/control.grpc.pb.h"
#include "tools/rpc/outbox.h"
#include "tools/rpc/rpc.h"
#include "tools/scheduler/spec.h"
#include "tools/scheduler/store.h"

namespace oneflow {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
// How soon a watcher whose client has gone away is noticed; events are not delayed by it.
constexpr absl::Duration kWatcherCheck = absl::Seconds(1);
constexpr int kEventsPerRead = 256;
constexpr absl::Duration kShutdown = absl::Seconds(2);

// The time of day when it was made, and steady from there: leases must not expire because someone sets the clock.
class SteadyClock {
 public:
  absl::Time Now() const { return start_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_start_); }

 private:
  const absl::Time start_ = absl::Now();
  const std::chrono::steady_clock::time_point steady_start_ = std::chrono::steady_clock::now();
};

class Server final : public SchedulerServer, public pb::Scheduler::Service {
 public:
  Server(std::unique_ptr<Store> store, const SchedulerLimits& limits) : store_(std::move(store)), state_(limits) {}

  ~Server() override { Stop(); }

  absl::Status Begin(const std::string& address) {
    {
      absl::MutexLock lock(&mu_);
      OF_ASSIGN_OR_RETURN(std::vector<StoredJob> jobs, store_->LoadJobs());
      Effects effects;
      state_.Restore(std::move(jobs), clock_.Now(), effects);
      OF_RETURN_IF_ERROR(store_->Apply(effects, true));
    }
    OF_ASSIGN_OR_RETURN_AT(Listener listener, Listen(address, {this}), "scheduler");
    server_ = std::move(listener.server);
    address_ = std::move(listener.address);
    ticker_ = std::thread([this] { TickLoop(); });
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }

  void Stop() override {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
      for (const auto& [id, session] : sessions_) {
        session->closed_because = Stopping();
        session->context->TryCancel();
      }
    }
    absl::MutexLock once(&stop_mu_);
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kShutdown));
      server_->Wait();
      server_.reset();
    }
    if (ticker_.joinable()) ticker_.join();
  }

  absl::Status Wait() override {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&stopping_));
    return failure_;
  }

  // --- calls of clients ---

  grpc::Status Submit(grpc::ServerContext*, const pb::SubmitRequest* request, pb::SubmitReply* reply) override {
    if (absl::Status valid = ValidateSpec(request->spec()); !valid.ok()) {
      return ToGrpc(Annotate(valid, absl::StrCat("job '", request->spec().name(), "'")));
    }
    absl::MutexLock lock(&mu_);
    Effects effects;
    reply->set_job(state_.Submit(request->spec(), clock_.Now(), effects));
    return ToGrpc(Perform(effects));
  }

  grpc::Status Cancel(grpc::ServerContext*, const pb::CancelRequest* request, pb::CancelReply*) override {
    absl::MutexLock lock(&mu_);
    Effects effects;
    const absl::Status cancelled = state_.Cancel(request->job(), request->gently(), clock_.Now(), effects);
    return ToGrpc(cancelled.ok() ? Perform(effects) : cancelled);
  }

  grpc::Status List(grpc::ServerContext*, const pb::ListRequest*, pb::ListReply* reply) override {
    absl::MutexLock lock(&mu_);
    for (pb::JobStatus& status : state_.List()) *reply->add_jobs() = std::move(status);
    return grpc::Status::OK;
  }

  grpc::Status Logs(grpc::ServerContext*, const pb::LogsRequest* request, pb::LogsReply* reply) override {
    absl::MutexLock lock(&mu_);
    const int64_t number = ++last_logs_;
    Effects effects;
    const absl::Status asked = state_.QueryLogs(number, request->job(), clock_.Now(), effects);
    if (!asked.ok()) return ToGrpc(asked);
    if (absl::Status performed = Perform(effects); !performed.ok()) return ToGrpc(performed);
    // The state answers within its own limit, whatever daemons do.
    const auto answered = [this, number]()
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || logs_.contains(number); };
    mu_.Await(absl::Condition(&answered));
    if (!logs_.contains(number)) return ToGrpc(Stopping());
    *reply = std::move(logs_.extract(number).mapped());
    return grpc::Status::OK;
  }

  grpc::Status Diagnose(grpc::ServerContext*, const pb::DiagnoseRequest* request, pb::DiagnoseReply* reply) override {
    absl::MutexLock lock(&mu_);
    const int64_t number = ++last_diagnosis_;
    Effects effects;
    const absl::Status asked = state_.Diagnose(number, request->job(), clock_.Now(), effects);
    if (!asked.ok()) return ToGrpc(asked);
    if (absl::Status performed = Perform(effects); !performed.ok()) return ToGrpc(performed);
    const auto answered = [this, number]()
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || diagnoses_.contains(number); };
    mu_.Await(absl::Condition(&answered));
    if (!diagnoses_.contains(number)) return ToGrpc(Stopping());
    reply->set_text(diagnoses_.extract(number).mapped());
    return grpc::Status::OK;
  }

  grpc::Status Watch(grpc::ServerContext* context, const pb::WatchRequest* request,
                     grpc::ServerWriter<pb::JobEvent>* writer) override {
    int64_t next = std::max<int64_t>(request->from_sequence(), 0);
    while (true) {
      std::vector<pb::JobEvent> events;
      if (absl::Status read = AwaitEvents(request->job(), next, context, events); !read.ok()) return ToGrpc(read);
      if (events.empty()) return grpc::Status::OK;  // there will be no more
      next += events.size();
      for (const pb::JobEvent& event : events) {
        if (!writer->Write(event)) return grpc::Status::CANCELLED;
      }
    }
  }

  // --- daemons ---

  grpc::Status DaemonSession(grpc::ServerContext* context,
                             grpc::ServerReaderWriter<pb::ToDaemon, pb::FromDaemon>* stream) override {
    pb::FromDaemon message;
    if (!stream->Read(&message)) return grpc::Status::CANCELLED;
    if (!message.has_hello()) {
      return ToGrpc(absl::InvalidArgumentError("the first message of a daemon must be its hello"));
    }
    const std::string name = message.hello().name();
    Session session{.context = context};
    absl::StatusOr<SessionId> id = Register(message.hello(), session);
    if (!id.ok()) return ToGrpc(id.status());
    LOG(INFO) << "daemon '" << name << "' (pid " << message.hello().pid() << " on '" << message.hello().host()
              << "') offers " << message.hello().cpu_devices() << " cpu and " << message.hello().cuda_devices()
              << " cuda devices";
    std::thread writer([&session, stream] {
      while (!session.outbox.done()) {
        const std::optional<pb::ToDaemon> next = session.outbox.Pop();
        if (next && !stream->Write(*next)) return;
      }
    });
    while (stream->Read(&message)) OnMessage(*id, message);
    const absl::Status end = Unregister(*id, session);
    writer.join();
    LOG(INFO) << "daemon '" << name << "' is gone: " << end.message();
    return ToGrpc(end);
  }

 private:
  // A connected daemon. Lives on the stack of its call.
  struct Session {
    grpc::ServerContext* context;
    Outbox<pb::ToDaemon> outbox;
    absl::Status closed_because;  // guarded by mu_; why we ended it, if we did
  };

  static absl::Status Stopping() { return absl::UnavailableError("the scheduler is stopping"); }

  absl::StatusOr<SessionId> Register(const pb::DaemonHello& hello, Session& session) {
    absl::MutexLock lock(&mu_);
    const SessionId id = ++last_session_;
    sessions_[id] = &session;
    Effects effects;
    absl::Status status = stopping_ ? Stopping() : state_.DaemonHello(id, hello, clock_.Now(), effects);
    if (status.ok()) status = Perform(effects);
    if (status.ok()) return id;
    sessions_.erase(id);
    return status;
  }

  absl::Status Unregister(SessionId id, Session& session) {
    absl::MutexLock lock(&mu_);
    sessions_.erase(id);
    session.outbox.Close();
    Effects effects;
    // While stopping, jobs are left as they are: the next scheduler says what became of them.
    if (!stopping_) state_.DaemonLost(id, "its connection closed", clock_.Now(), effects);
    Perform(effects).IgnoreError();
    return session.closed_because.ok() ? absl::CancelledError("its connection closed") : session.closed_because;
  }

  void OnMessage(SessionId id, const pb::FromDaemon& message) {
    absl::MutexLock lock(&mu_);
    if (stopping_) return;
    Effects effects;
    state_.DaemonMessage(id, message, clock_.Now(), effects);
    Perform(effects).IgnoreError();  // it has stopped the scheduler
  }

  // Stores, then tells. A store that fails stops the scheduler.
  absl::Status Perform(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!failure_.ok()) return failure_;
    const bool durable = !effects.changed_jobs.empty();  // fetched values alone are not worth waiting for the disk
    if (absl::Status stored = store_->Apply(effects, durable); !stored.ok()) {
      LOG(ERROR) << "the scheduler ends: " << stored.message();
      failure_ = stored;
      stopping_ = true;
      return stored;
    }
    for (const pb::JobStatus& job : effects.changed_jobs) {
      LOG(INFO) << "job " << job.job() << " '" << job.name() << "': " << pb::JobState_Name(job.state())
                << (job.message().empty() ? "" : ": ") << job.message();
    }
    for (auto& [session, message] : effects.messages) {
      if (const auto found = sessions_.find(session); found != sessions_.end()) {
        found->second->outbox.Push(std::move(message));
      }
    }
    for (auto& [session, reason] : effects.closed_sessions) {
      if (const auto found = sessions_.find(session); found != sessions_.end()) {
        found->second->closed_because = reason;
        found->second->context->TryCancel();
      }
    }
    for (auto& [request, reply] : effects.logs) logs_[request] = std::move(reply);
    for (auto& [request, text] : effects.diagnoses) diagnoses_[request] = std::move(text);
    return absl::OkStatus();
  }

  // The events of `job` from `next` on, waiting until there is one; none if it has ended and all were read.
  absl::Status AwaitEvents(int64_t job, int64_t next, grpc::ServerContext* context, std::vector<pb::JobEvent>& events) {
    absl::MutexLock lock(&mu_);
    OF_ASSIGN_OR_RETURN(pb::JobStatus status, state_.Find(job));
    const auto more = [this, job, next]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return stopping_ || state_.num_events(job) > next || state_.Find(job)->state() >= pb::FINISHED;
    };
    while (!mu_.AwaitWithTimeout(absl::Condition(&more), kWatcherCheck)) {
      if (context->IsCancelled()) return absl::CancelledError("the watcher is gone");
    }
    if (state_.num_events(job) > next) {
      OF_ASSIGN_OR_RETURN(events, store_->LoadEvents(job, next, kEventsPerRead));
      return absl::OkStatus();
    }
    return state_.Find(job)->state() >= pb::FINISHED ? absl::OkStatus() : Stopping();
  }

  void TickLoop() {
    absl::MutexLock lock(&mu_);
    while (!mu_.AwaitWithTimeout(absl::Condition(&stopping_), kTick)) {
      Effects effects;
      state_.Tick(clock_.Now(), effects);
      Perform(effects).IgnoreError();  // it has stopped the scheduler
    }
  }

  const SteadyClock clock_;
  absl::Mutex mu_;
  const std::unique_ptr<Store> store_ ABSL_PT_GUARDED_BY(mu_);
  SchedulerState state_ ABSL_GUARDED_BY(mu_);
  std::map<SessionId, Session*> sessions_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, pb::LogsReply> logs_ ABSL_GUARDED_BY(mu_);  // answers that nobody has taken yet
  SessionId last_session_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t last_logs_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, std::string> diagnoses_ ABSL_GUARDED_BY(mu_);  // as logs_
  int64_t last_diagnosis_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  absl::Mutex stop_mu_;
  std::unique_ptr<grpc::Server> server_;  // written before others see this object, and under stop_mu_
  std::string address_;
  std::thread ticker_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SchedulerServer>> SchedulerServer::Start(const SchedulerOptions& options) {
  OF_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Store::Open(options.db_path));
  auto server = std::make_unique<Server>(std::move(store), options.limits);
  OF_RETURN_IF_ERROR(server->Begin(options.address));
  return server;
}

}  // namespace oneflow
