#include "tools/control/scheduler/service.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "glog/logging.h"
#include "proto/control.grpc.pb.h"
#include "tools/control/metrics/metrics_server.h"
#include "tools/control/process/random_number.h"
#include "tools/control/rpc/outbox.h"
#include "tools/control/rpc/rpc.h"
#include "tools/control/scheduler/gate.h"
#include "tools/control/scheduler/job_board.h"
#include "tools/control/scheduler/metrics.h"
#include "tools/control/scheduler/spec.h"
#include "tools/control/scheduler/store.h"

namespace oneflow {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
// How soon a watcher whose client has gone away is noticed; events are not delayed by it.
constexpr absl::Duration kWatcherCheck = absl::Seconds(1);
constexpr int kEventsPerRead = 256;
// Clients come back to a scheduler within a minute (Client::Watch).
constexpr absl::Duration kReaderReturns = absl::Minutes(2);
// Events that were sent to a reader and may be lost with its connection: some 250 KiB of a network's buffers.
constexpr int64_t kOnTheWay = 4096;
// What is no longer kept is deleted piece by piece with room for others in between.
constexpr absl::Duration kPruneGap = absl::Milliseconds(50);
constexpr int kMostWatchers = 1000;
constexpr absl::Duration kShutdown = absl::Seconds(2);

// The time of day when it was made, and steady from there: leases must not expire because someone sets the clock.
class SteadyClock {
 public:
  absl::Time Now() const { return start_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_start_); }

 private:
  const absl::Time start_ = absl::Now();
  const std::chrono::steady_clock::time_point steady_start_ = std::chrono::steady_clock::now();
};

class Server final : public SchedulerServer, public pb::Scheduler::Service, private PageSource {
 public:
  Server(std::unique_ptr<Store> store, const SchedulerOptions& options)
      : keep_(options.keep),
        heartbeat_(options.limits.heartbeat),
        access_{.identity = options.identity, .insecure = options.insecure},
        store_(std::move(store)),
        state_(options.limits),
        gate_(!options.identity.empty(), options.tokens) {}

  ~Server() override { Stop(); }

  absl::Status Begin(const SchedulerOptions& options) {
    OF_RETURN_IF_ERROR(Restore());
    if (!options.metrics.empty()) {
      OF_ASSIGN_OR_RETURN(metrics_server_, ServeMetrics(options.metrics, AccessToLook("read the metrics"),
                                                        [this](Families& families) { WriteMetrics(families); }));
      LOG(INFO) << "metrics are at " << metrics_server_->url() << "/metrics";
    }
    if (!options.page.empty()) {
      if (options.serve_page == nullptr) return absl::UnimplementedError("--page: this program has none");
      OF_ASSIGN_OR_RETURN(page_, options.serve_page(options.page, AccessToLook("look at the page"), *this,
                                                    options.executable, options.allowed));
      LOG(INFO) << "the page is at " << page_url();
    }
    OF_ASSIGN_OR_RETURN_AT(Listener listener, Listen(options.address, {this}, access_), "scheduler");
    server_ = std::move(listener.server);
    address_ = std::move(listener.address);
    store_thread_ = std::thread([this] { StoreLoop(); });
    ticker_ = std::thread([this] { TickLoop(); });
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  std::string page_url() const override { return page_ == nullptr ? "" : page_->url() + "/"; }

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
    metrics_server_.reset();
    page_.reset();
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kShutdown));
      server_->Wait();
      server_.reset();
    }
    if (ticker_.joinable()) ticker_.join();
    {
      absl::MutexLock lock(&mu_);
      nobody_acts_ = true;  // the calls and the ticker have ended
    }
    if (store_thread_.joinable()) store_thread_.join();
  }

  absl::Status Wait() override {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&stopping_));
    return failure_;
  }

  // --- calls of clients ---

  grpc::Status Submit(grpc::ServerContext* context, const pb::SubmitRequest* request, pb::SubmitReply* reply) override {
    const absl::StatusOr<Caller> caller = gate_.Admit(*context, "submit a job", UserRole::kSubmit);
    if (!caller.ok()) return ToGrpc(caller.status());
    if (absl::Status valid = ValidateSpec(request->spec()); !valid.ok()) {
      return ToGrpc(Annotate(valid, absl::StrCat("job '", request->spec().name(), "'")));
    }
    if (absl::Status valid = ValidateWish(*request); !valid.ok()) return ToGrpc(valid);
    AcceptedSpec accepted = Accept(request->spec());
    accepted.spec.set_run(RandomNumber());  // whatever the client says: it tells this job's attempts from all others
    accepted.user = caller->user.empty() ? request->user() : caller->user;
    accepted.priority = request->priority();
    absl::MutexLock lock(&mu_);
    Effects effects;
    const absl::StatusOr<int64_t> job = state_.Submit(std::move(accepted), clock_.Now(), effects);
    if (!job.ok()) return ToGrpc(job.status());
    reply->set_job(*job);
    return ToGrpc(AwaitStored(Perform(std::move(effects))));
  }

  grpc::Status Cancel(grpc::ServerContext* context, const pb::CancelRequest* request, pb::CancelReply*) override {
    const std::string asked = absl::StrCat("cancel job ", request->job());
    const absl::StatusOr<Caller> caller = gate_.Admit(*context, asked, UserRole::kSubmit);
    if (!caller.ok()) return ToGrpc(caller.status());
    absl::MutexLock lock(&mu_);
    if (absl::Status may = MayChange(request->job(), *caller, *context, asked); !may.ok()) return ToGrpc(may);
    Effects effects;
    const absl::Status cancelled = state_.Cancel(request->job(), request->gently(), clock_.Now(), effects);
    return ToGrpc(cancelled.ok() ? AwaitStored(Perform(std::move(effects))) : cancelled);
  }

  grpc::Status Save(grpc::ServerContext* context, const pb::SaveRequest* request, pb::SaveReply*) override {
    const std::string asked = absl::StrCat("save job ", request->job());
    const absl::StatusOr<Caller> caller = gate_.Admit(*context, asked, UserRole::kSubmit);
    if (!caller.ok()) return ToGrpc(caller.status());
    absl::MutexLock lock(&mu_);
    if (absl::Status may = MayChange(request->job(), *caller, *context, asked); !may.ok()) return ToGrpc(may);
    Effects effects;
    const absl::Status told = state_.Save(request->job(), effects);
    Perform(std::move(effects));
    return ToGrpc(told);
  }

  grpc::Status List(grpc::ServerContext* context, const pb::ListRequest*, pb::ListReply* reply) override {
    const absl::StatusOr<Caller> caller = gate_.Admit(*context, "list jobs", UserRole::kRead);
    if (!caller.ok()) return ToGrpc(caller.status());
    absl::MutexLock lock(&mu_);
    for (pb::JobStatus& status : state_.List()) *reply->add_jobs() = std::move(status);
    return grpc::Status::OK;
  }

  grpc::Status Logs(grpc::ServerContext* context, const pb::LogsRequest* request, pb::LogsReply* reply) override {
    const absl::StatusOr<Caller> caller =
        gate_.Admit(*context, absl::StrCat("read the logs of job ", request->job()), UserRole::kRead);
    if (!caller.ok()) return ToGrpc(caller.status());
    absl::MutexLock lock(&mu_);
    const int64_t number = ++last_logs_;
    Effects effects;
    const absl::Status asked = state_.QueryLogs(number, *request, clock_.Now(), effects);
    if (!asked.ok()) return ToGrpc(asked);
    Perform(std::move(effects));
    // The state answers within its own limit, whatever daemons do.
    const auto answered = [this, number]()
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || logs_.contains(number); };
    mu_.Await(absl::Condition(&answered));
    if (!logs_.contains(number)) return ToGrpc(Stopping());
    *reply = std::move(logs_.extract(number).mapped());
    return grpc::Status::OK;
  }

  grpc::Status Diagnose(grpc::ServerContext* context, const pb::DiagnoseRequest* request,
                        pb::DiagnoseReply* reply) override {
    const absl::StatusOr<Caller> caller =
        gate_.Admit(*context, absl::StrCat("diagnose job ", request->job()), UserRole::kRead);
    if (!caller.ok()) return ToGrpc(caller.status());
    absl::MutexLock lock(&mu_);
    const int64_t number = ++last_diagnosis_;
    Effects effects;
    const absl::Status asked = state_.Diagnose(number, request->job(), clock_.Now(), effects);
    if (!asked.ok()) return ToGrpc(asked);
    Perform(std::move(effects));
    const auto answered = [this, number]()
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_ || diagnoses_.contains(number); };
    mu_.Await(absl::Condition(&answered));
    if (!diagnoses_.contains(number)) return ToGrpc(Stopping());
    reply->set_text(diagnoses_.extract(number).mapped());
    return grpc::Status::OK;
  }

  grpc::Status Describe(grpc::ServerContext* context, const pb::DescribeRequest* request,
                        pb::DescribeReply* reply) override {
    const absl::StatusOr<Caller> caller =
        gate_.Admit(*context, absl::StrCat("describe job ", request->job()), UserRole::kRead);
    if (!caller.ok()) return ToGrpc(caller.status());
    absl::StatusOr<pb::DescribeReply> described = Describe(request->job(), request->with_plan());
    if (described.ok()) *reply = *std::move(described);
    return ToGrpc(described.status());
  }

  grpc::Status Nodes(grpc::ServerContext* context, const pb::NodesRequest*, pb::NodesReply* reply) override {
    const absl::StatusOr<Caller> caller = gate_.Admit(*context, "list nodes", UserRole::kRead);
    if (!caller.ok()) return ToGrpc(caller.status());
    absl::MutexLock lock(&mu_);
    *reply = state_.Nodes();
    return grpc::Status::OK;
  }

  grpc::Status Drain(grpc::ServerContext* context, const pb::DrainRequest* request, pb::DrainReply*) override {
    const absl::StatusOr<Caller> caller = gate_.Admit(*context, "drain a node", UserRole::kAdmin);
    if (!caller.ok()) return ToGrpc(caller.status());
    absl::MutexLock lock(&mu_);
    Effects effects;
    const absl::Status drained = state_.Drain(request->node(), request->undo(), clock_.Now(), effects);
    return ToGrpc(drained.ok() ? AwaitStored(Perform(std::move(effects))) : drained);
  }

  grpc::Status Retry(grpc::ServerContext* context, const pb::RetryRequest* request, pb::RetryReply*) override {
    const std::string asked = absl::StrCat("retry job ", request->job());
    const absl::StatusOr<Caller> caller = gate_.Admit(*context, asked, UserRole::kSubmit);
    if (!caller.ok()) return ToGrpc(caller.status());
    {
      absl::MutexLock lock(&mu_);
      if (absl::Status may = MayChange(request->job(), *caller, *context, asked); !may.ok()) return ToGrpc(may);
    }
    absl::StatusOr<pb::JobSpec> spec = LoadSpec(request->job(), /*with_plan=*/true);
    if (absl::IsNotFound(spec.status())) return ToGrpc(absl::FailedPreconditionError(spec.status().message()));
    const absl::Status valid = spec.ok() ? ValidateSpec(*spec) : spec.status();
    if (!valid.ok()) return ToGrpc(Annotate(valid, absl::StrCat("job ", request->job())));
    AcceptedSpec accepted = Accept(*std::move(spec));
    absl::MutexLock lock(&mu_);
    Effects effects;
    const absl::Status queued = state_.Retry(request->job(), std::move(accepted), clock_.Now(), effects);
    return ToGrpc(queued.ok() ? AwaitStored(Perform(std::move(effects))) : queued);
  }

  grpc::Status Watch(grpc::ServerContext* context, const pb::WatchRequest* request,
                     grpc::ServerWriter<pb::JobEvent>* writer) override {
    const absl::StatusOr<Caller> caller =
        gate_.Admit(*context, absl::StrCat("watch job ", request->job()), UserRole::kRead);
    if (!caller.ok()) return ToGrpc(caller.status());
    Watcher watcher(*this, request->job(), std::max<int64_t>(request->from_sequence(), 0));
    if (watcher.too_many()) {
      return ToGrpc(absl::ResourceExhaustedError(absl::StrCat(kMostWatchers, " watch jobs already")));
    }
    while (true) {
      std::vector<pb::JobEvent> events;
      const absl::Status read = AwaitEvents(request->job(), watcher.next(), context, events);
      if (!read.ok()) return ToGrpc(read);
      if (events.empty()) return grpc::Status::OK;  // there will be no more
      for (const pb::JobEvent& event : events) {
        if (!writer->Write(event)) return grpc::Status::CANCELLED;
      }
      watcher.MoveTo(events.back().sequence() + 1);
    }
  }

  // --- daemons ---

  grpc::Status DaemonSession(grpc::ServerContext* context,
                             grpc::ServerReaderWriter<pb::ToDaemon, pb::FromDaemon>* stream) override {
    if (const absl::Status admitted = gate_.AdmitDaemon(*context); !admitted.ok()) return ToGrpc(admitted);
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
    absl::Time heard = clock_.Now();
    while (stream->Read(&message)) {
      metrics_.OnHeard(clock_.Now() - heard - heartbeat_);
      heard = clock_.Now();
      OnMessage(*id, message);
    }
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

  // Who reads the events of a job: what it may not have read is not thinned.
  struct Reader {
    int64_t job;
    int64_t next;                               // to be sent
    absl::Time until = absl::InfiniteFuture();  // when it is no longer thought to come back
  };

  // A call that lasts as long as its job: each has a thread.
  class Watcher {
   public:
    Watcher(Server& server, int64_t job, int64_t next) : server_(server), number_(++server.num_watchers_) {
      absl::MutexLock lock(&server.mu_);
      reader_ = server.readers_.insert(server.readers_.end(), {job, next});
    }
    ~Watcher() {
      absl::MutexLock lock(&server_.mu_);
      server_.Leave(*reader_);
      server_.readers_.erase(reader_);
      --server_.num_watchers_;
    }
    bool too_many() const { return number_ > kMostWatchers; }
    int64_t next() const { return reader_->next; }
    void MoveTo(int64_t next) {
      absl::MutexLock lock(&server_.mu_);
      reader_->next = next;
    }

   private:
    Server& server_;
    const int number_;
    std::list<Reader>::iterator reader_;
  };

  // Whether the caller may do more to the job than look at it. NotFound; errors of Gate::AdmitToJobOf().
  absl::Status MayChange(int64_t job, const Caller& caller, const grpc::ServerContext& context, absl::string_view asked)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    OF_ASSIGN_OR_RETURN(const pb::JobStatus status, state_.Find(job));
    return Annotate(gate_.AdmitToJobOf(status.user(), caller, context, asked), absl::StrCat("job ", job));
  }

  // NotFound if it is no longer kept.
  absl::StatusOr<pb::JobSpec> LoadSpec(int64_t job, bool with_plan) {
    absl::MutexLock lock(&store_mu_);
    OF_ASSIGN_OR_RETURN(pb::JobSpec spec, store_->LoadSpec(job));
    if (with_plan) OF_RETURN_IF_ERROR(LoadPlans(spec));
    return spec;
  }

  // Of its own layout and its fallbacks.
  absl::Status LoadPlans(pb::JobSpec& spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(store_mu_) {
    OF_ASSIGN_OR_RETURN(*spec.mutable_plan(), store_->LoadPlan(spec.plan_hash()));
    for (pb::Fallback& fallback : *spec.mutable_fallbacks()) {
      OF_ASSIGN_OR_RETURN(*fallback.mutable_plan(), store_->LoadPlan(fallback.plan_hash()));
    }
    return absl::OkStatus();
  }

  static absl::Status IsDamaged(const absl::Status& what) {
    return absl::DataLossError(absl::StrCat("the store is damaged: ", what.message()));
  }
  static absl::Status Stopping() { return absl::UnavailableError("the scheduler is stopping"); }

  absl::StatusOr<SessionId> Register(const pb::DaemonHello& hello, Session& session) {
    absl::MutexLock lock(&mu_);
    const SessionId id = ++last_session_;
    sessions_[id] = &session;
    Effects effects;
    const absl::Status status = stopping_ ? Stopping() : state_.DaemonHello(id, hello, clock_.Now(), effects);
    Perform(std::move(effects));
    if (status.ok()) return id;
    sessions_.erase(id);
    return status;
  }

  absl::Status Unregister(SessionId id, Session& session) {
    absl::MutexLock lock(&mu_);
    sessions_.erase(id);
    session.outbox.Close();
    Effects effects;
    // While stopping, jobs are left as they are: the next scheduler goes on with them.
    if (!stopping_) state_.SessionEnded(id, clock_.Now(), effects);
    Perform(std::move(effects));
    return session.closed_because.ok() ? absl::CancelledError("its connection closed") : session.closed_because;
  }

  void OnMessage(SessionId id, const pb::FromDaemon& message) {
    absl::MutexLock lock(&mu_);
    if (stopping_) return;
    Effects effects;
    state_.DaemonMessage(id, message, clock_.Now(), effects);
    Perform(std::move(effects));
  }

  // Leaves effects to the store thread, which carries them out in this order. Their place in it.
  int64_t Perform(Effects effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (effects.empty()) return performed_;
    pending_.Append(std::move(effects));
    return ++performed_;
  }

  // Returns when the effects at this place are stored and carried out, or the store has failed.
  absl::Status AwaitStored(int64_t place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto stored = [this, place]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stored_ >= place || !failure_.ok(); };
    mu_.Await(absl::Condition(&stored));
    return failure_;
  }

  // Takes all that has come since it last looked: the more there is, the fewer transactions it takes.
  void StoreLoop() {
    absl::Time prune = clock_.Now() + keep_.every;
    absl::MutexLock lock(&mu_);
    const auto called = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !pending_.empty() || nobody_acts_; };
    while (true) {
      mu_.AwaitWithTimeout(absl::Condition(&called), std::max(prune - clock_.Now(), absl::ZeroDuration()));
      if (!pending_.empty()) {
        StorePending();
      } else if (nobody_acts_) {
        return;
      }
      ThinSome();
      if (failure_.ok() && clock_.Now() >= prune)
        prune = clock_.Now() + (PruneSome() ? std::min(kPruneGap, keep_.every) : keep_.every);
    }
  }

  void StorePending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Effects effects = std::exchange(pending_, {});
    const int64_t place = performed_;
    if (!failure_.ok()) return;  // what is not stored is not told
    mu_.Unlock();
    const absl::Time begin = clock_.Now();
    std::map<int64_t, LostStart> lost;
    const absl::Status stored = Write(effects, lost);
    if (stored.ok()) {
      metrics_.OnStored(effects, clock_.Now() - begin);
      for (const pb::JobStatus& job : effects.changed_jobs) board_.Set(job);
    }
    mu_.Lock();
    if (!stored.ok()) return Fail(stored);
    Tell(effects);
    stored_ = place;
    Effects ends;
    for (const auto& [job, start] : lost) state_.Abandon(start, clock_.Now(), ends);
    Perform(std::move(ends));
  }

  // Whether there is more to be deleted.
  bool PruneSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    mu_.Unlock();
    const absl::StatusOr<int64_t> expired = [this] {
      absl::MutexLock lock(&store_mu_);
      return store_->FindExpired(keep_, clock_.Now(), passed_over_);
    }();
    mu_.Lock();
    if (!expired.ok()) Fail(expired.status());
    if (expired.value_or(0) == 0) {
      passed_over_ = 0;
      return false;
    }
    if (!pending_.empty()) return true;  // what is still to be stored of it comes first
    Effects effects;
    if (!state_.Forget(*expired, effects)) {
      passed_over_ = *expired;
      return true;
    }
    Perform(std::move(effects));
    const bool forgotten = !state_.Find(*expired).ok();
    if (forgotten) num_stored_.erase(*expired);
    mu_.Unlock();
    if (forgotten) board_.Remove(*expired);
    const absl::Status deleted = [&] {
      absl::MutexLock lock(&store_mu_);
      return store_->DeletePart(*expired);
    }();
    mu_.Lock();
    if (!deleted.ok()) Fail(deleted);
    return true;
  }

  // A reader whose call has ended may come back.
  void Leave(Reader reader) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const absl::Time now = clock_.Now();
    while (!left_.empty() && left_.front().until < now) left_.pop_front();
    reader.until = now + kReaderReturns;
    left_.push_back(reader);
  }

  // From where on someone may not have read the events of the job.
  int64_t FirstUnread(int64_t job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    int64_t first = std::numeric_limits<int64_t>::max();
    const auto look = [&](const Reader& reader) {
      if (reader.job == job && reader.until >= clock_.Now()) first = std::min(first, reader.next - kOnTheWay);
    };
    for (const Reader& reader : readers_) look(reader);
    for (const Reader& reader : left_) look(reader);
    return first;
  }

  // One job's events, if those of some have grown.
  void ThinSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!failure_.ok()) return;
    mu_.Unlock();
    const int64_t grown = [this] {
      absl::MutexLock lock(&store_mu_);
      return store_->FindGrown();
    }();
    mu_.Lock();
    if (grown == 0) return;
    const int64_t first_unread = FirstUnread(grown);
    mu_.Unlock();
    const absl::Status thinned = [&] {
      absl::MutexLock lock(&store_mu_);
      return store_->Thin(grown, first_unread);
    }();
    mu_.Lock();
    if (!thinned.ok()) Fail(thinned);
  }

  // A store that fails stops the scheduler.
  void Fail(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    LOG(ERROR) << "the scheduler ends: " << status.message();
    failure_ = status;
    stopping_ = true;
  }

  // Jobs whose plan is damaged are added to `lost`, and nobody is told to start them.
  absl::Status Write(Effects& effects, std::map<int64_t, LostStart>& lost) {
    absl::MutexLock lock(&store_mu_);
    OF_RETURN_IF_ERROR(store_->Apply(effects, effects.durable()));
    std::string hash, plan;       // the last one: the processes of a job follow one another
    std::set<SessionId> have_it;  // daemons keep the last one too
    for (auto& [session, message] : effects.messages) {
      if (!message.has_start()) continue;
      pb::JobSpec& spec = *message.mutable_start()->mutable_spec();
      if (spec.plan_hash() != hash) {
        absl::StatusOr<std::string> loaded = store_->LoadPlan(spec.plan_hash());
        if (absl::IsNotFound(loaded.status())) {
          LostStart& start = lost[message.start().job()];
          start.job = message.start().job();
          start.attempt = message.start().attempt();
          start.processes.push_back(message.start().process());
          start.why = std::string(IsDamaged(loaded.status()).message());
          continue;
        }
        OF_RETURN_IF_ERROR(loaded.status());
        plan = *std::move(loaded);
        hash = spec.plan_hash();
        have_it.clear();
      }
      if (have_it.insert(session).second) spec.set_plan(plan);
    }
    std::erase_if(effects.messages, [&lost](const auto& told) {
      return told.second.has_start() && lost.contains(told.second.start().job());
    });
    return absl::OkStatus();
  }

  void Tell(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const pb::JobStatus& job : effects.changed_jobs) {
      LOG(INFO) << "job " << job.job() << " '" << job.name() << "': " << pb::JobState_Name(job.state())
                << (job.message().empty() ? "" : ": ") << job.message();
    }
    for (const auto& [job, event] : effects.events) num_stored_[job] = event.sequence() + 1;
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
        found->second->context->TryCancel();
      }
    }
    for (auto& [request, reply] : effects.logs) logs_[request] = std::move(reply);
    for (auto& [request, text] : effects.diagnoses) diagnoses_[request] = std::move(text);
  }

  // Jobs of a former scheduler, held against what this one accepts.
  absl::Status Restore() {
    absl::MutexLock lock(&mu_);
    absl::MutexLock store_lock(&store_mu_);
    OF_ASSIGN_OR_RETURN(std::vector<StoredJob> jobs, store_->LoadJobs());
    OF_ASSIGN_OR_RETURN(auto daemons, store_->LoadDaemons());
    for (StoredJob& job : jobs) {
      num_stored_[job.status.job()] = job.next_sequence;
      board_.Set(job.status);
      if (job.status.state() >= pb::FINISHED) continue;
      Leave({job.status.job(), 0});  // whoever read it of the former scheduler
      if (job.valid.ok()) {
        const absl::Status loaded = LoadPlans(job.spec);
        if (!loaded.ok() && !absl::IsNotFound(loaded)) return loaded;
        job.valid = loaded.ok() ? ValidateSpec(job.spec) : IsDamaged(loaded);
      }
      if (job.valid.ok()) job.gangs = GangsOf(job.spec);
      metrics_.OnRestored(job.spec, job.status);
      job.spec.clear_plan();
      for (pb::Fallback& fallback : *job.spec.mutable_fallbacks()) fallback.clear_plan();
    }
    Effects effects;
    state_.Restore(std::move(jobs), std::move(daemons), clock_.Now(), effects);
    Perform(std::move(effects));
    return absl::OkStatus();
  }

  // --- for the page ---

  std::vector<pb::JobStatus> Jobs(int64_t before, int limit) override { return board_.Newest(before, limit); }
  std::array<int64_t, pb::JobState_ARRAYSIZE> JobCounts() override { return board_.counts(); }
  int64_t JobsVersion() override { return board_.version(); }

  absl::StatusOr<pb::DescribeReply> Describe(int64_t job, bool with_plan) override {
    pb::DescribeReply reply;
    {
      absl::MutexLock lock(&mu_);
      OF_ASSIGN_OR_RETURN(reply, state_.Describe(job));
    }
    absl::StatusOr<pb::JobSpec> spec = LoadSpec(job, with_plan);
    if (spec.ok()) *reply.mutable_spec() = OnLayout(*std::move(spec), reply.status().fallback());
    if (!spec.ok() && !absl::IsNotFound(spec.status())) return spec.status();
    return reply;
  }

  absl::StatusOr<std::vector<pb::JobEvent>> Events(int64_t job, int64_t from, int limit) override {
    if (NumEvents(job) <= from) return std::vector<pb::JobEvent>();
    absl::MutexLock lock(&store_mu_);
    OF_ASSIGN_OR_RETURN(std::vector<pb::JobEvent> events, store_->LoadEvents(job, from, limit));
    if (!events.empty()) return events;
    return absl::FailedPreconditionError(absl::StrCat("the events of job ", job, " are no longer kept"));
  }

  int64_t NumEvents(int64_t job) override {
    absl::MutexLock lock(&mu_);
    return NumStored(job);
  }

  std::vector<pb::Node> Nodes() override {
    absl::MutexLock lock(&mu_);
    return state_.NodesWithoutJobs();
  }

  // Of the state only what the cluster's size bounds.
  void WriteMetrics(Families& families) {
    const auto counts = board_.counts();
    for (int state = 0; state < pb::JobState_ARRAYSIZE; ++state) {
      families.Gauge("oneflow_jobs", "Jobs by state; those that are QUEUED are the queue",
                     {{"state", pb::JobState_Name(static_cast<pb::JobState>(state))}},
                     static_cast<double>(counts[state]));
    }
    metrics_.Write(families, clock_.Now());
    WriteNodes(Nodes(), families);
  }

  // Of those who come by HTTP.
  HttpAccess AccessToLook(const char* asked) {
    HttpAccess access{.access = access_};
    if (gate_.has_tokens()) {
      access.gate = [this, asked](const std::string& host, const std::optional<std::string>& token) {
        return gate_.AdmitToLook(host, asked, token);
      };
    }
    return access;
  }

  static void WriteNodes(const std::vector<pb::Node>& nodes, Families& families) {
    double up = 0, away = 0, drained = 0;
    std::map<std::string, double> offered, used;  // by kind
    for (const pb::Node& node : nodes) {
      (node.away() ? away : up) += 1;
      drained += node.drained();
      offered["cpu"] += node.cpu_devices();
      offered["cuda"] += node.cuda_devices();
      used["cpu"] += node.used_cpu();
      used["cuda"] += node.used_cuda();
    }
    const char* const kDaemons = "oneflow_daemons";
    families.Gauge(kDaemons, "Daemons by state", {{"state", "up"}}, up);
    families.Gauge(kDaemons, "", {{"state", "away"}}, away);
    families.Gauge("oneflow_drained_daemons", "Daemons that get no new jobs", {}, drained);
    for (const char* kind : {"cpu", "cuda"}) {
      families.Gauge("oneflow_devices", "Devices that daemons offer", {{"device", kind}}, offered[kind]);
      families.Gauge("oneflow_used_devices", "Devices that jobs have", {{"device", kind}}, used[kind]);
    }
  }

  // The events of `job` from `next` on, waiting until there is one; none if it has ended and all were read.
  absl::Status AwaitEvents(int64_t job, int64_t next, grpc::ServerContext* context, std::vector<pb::JobEvent>& events) {
    {
      absl::MutexLock lock(&mu_);
      OF_RETURN_IF_ERROR(state_.Find(job).status());
      const auto more = [this, job, next]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return stopping_ || NumStored(job) > next || EndIsTold(job);
      };
      while (!mu_.AwaitWithTimeout(absl::Condition(&more), kWatcherCheck)) {
        if (context->IsCancelled()) return absl::CancelledError("the watcher is gone");
      }
      if (NumStored(job) <= next) return EndIsTold(job) ? absl::OkStatus() : Stopping();
    }
    OF_ASSIGN_OR_RETURN(events, Events(job, next, kEventsPerRead));
    return absl::OkStatus();
  }

  // The job has ended, and its last event is stored.
  bool EndIsTold(int64_t job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return state_.HasEnded(job) && NumStored(job) == state_.num_events(job);
  }
  int64_t NumStored(int64_t job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto found = num_stored_.find(job);
    return found == num_stored_.end() ? 0 : found->second;
  }

  void TickLoop() {
    absl::MutexLock lock(&mu_);
    while (!mu_.AwaitWithTimeout(absl::Condition(&stopping_), kTick)) {
      Effects effects;
      state_.Tick(clock_.Now(), effects);
      Perform(std::move(effects));
    }
  }

  const SteadyClock clock_;
  const EndedJobsRule keep_;
  const absl::Duration heartbeat_;  // how often daemons are told to be heard
  const Access access_;
  // For those who only look: told by the store thread, never under mu_.
  JobBoard board_;
  SchedulerMetrics metrics_;
  absl::Mutex store_mu_;  // may be taken under mu_ only before the threads begin: a transaction waits for a disk
  const std::unique_ptr<Store> store_ ABSL_PT_GUARDED_BY(store_mu_);
  absl::Mutex mu_;
  SchedulerState state_ ABSL_GUARDED_BY(mu_);
  Effects pending_ ABSL_GUARDED_BY(mu_);  // not yet stored
  int64_t passed_over_ = 0;  // by the store thread alone: up to which job those past the rule may not be forgotten yet
  int64_t performed_ ABSL_GUARDED_BY(mu_) = 0;                  // places given to effects
  int64_t stored_ ABSL_GUARDED_BY(mu_) = 0;                     // the last that is stored and told
  std::map<int64_t, int64_t> num_stored_ ABSL_GUARDED_BY(mu_);  // events, by job
  std::map<SessionId, Session*> sessions_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, pb::LogsReply> logs_ ABSL_GUARDED_BY(mu_);  // answers that nobody has taken yet
  SessionId last_session_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t last_logs_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, std::string> diagnoses_ ABSL_GUARDED_BY(mu_);  // as logs_
  int64_t last_diagnosis_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool nobody_acts_ ABSL_GUARDED_BY(mu_) = false;  // the store thread ends when it has stored what there is
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  Gate gate_;
  std::atomic<int> num_watchers_ = 0;
  std::list<Reader> readers_ ABSL_GUARDED_BY(mu_);
  std::deque<Reader> left_ ABSL_GUARDED_BY(mu_);  // that may come back, in the order in which they left
  absl::Mutex stop_mu_;
  // Written before others see this object, and under stop_mu_.
  std::unique_ptr<HttpServer> metrics_server_, page_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::thread ticker_, store_thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SchedulerServer>> SchedulerServer::Start(const SchedulerOptions& options) {
  const Access access{.identity = options.identity, .insecure = options.insecure};
  OF_RETURN_IF_ERROR_AT(MayListen(options.address, access), "scheduler");
  if (!options.tokens.empty()) OF_RETURN_IF_ERROR(ReadTokens(options.tokens).status());
  OF_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Store::Open(options.db_path));
  auto server = std::make_unique<Server>(std::move(store), options);
  OF_RETURN_IF_ERROR(server->Begin(options));
  return server;
}

}  // namespace oneflow
