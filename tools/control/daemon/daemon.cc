#include "tools/control/daemon/daemon.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "glog/logging.h"
#include "proto/control.grpc.pb.h"
#include "tools/control/daemon/kept_reports.h"
#include "tools/control/daemon/worker_metrics.h"
#include "tools/control/daemon/worker_pool.h"
#include "tools/control/metrics/metrics_server.h"
#include "tools/control/rpc/rpc.h"

namespace oneflow {
namespace {

// How long one try to connect may take, and thus how late Stop() and the lease are seen meanwhile.
constexpr absl::Duration kConnectTimeout = absl::Milliseconds(200);
// After a session that the scheduler refused; connecting itself backs off within gRPC.
constexpr absl::Duration kPause = absl::Milliseconds(500);
constexpr int kLogEvery = 10;  // seconds, of a scheduler that is none of ours
// While a worker waits until there is room for what it says, it is told every so often that it was heard.
constexpr absl::Duration kHeardEvery = absl::Milliseconds(200);
// For workers' calls at the end; they are dead by then.
constexpr absl::Duration kShutdown = absl::Milliseconds(500);

// Workers bring what they fetched and what they count, and no plans.
constexpr ServerLimits kOfWorkers{.message_bytes = 64 << 20, .memory_bytes = int64_t{512} << 20, .calls = 8};

// Where workers report: passes on what they say, and tells them what the pool has for them.
class WorkerService final : public pb::Daemon::Service {
 public:
  // `certificates`: callers must show that they are parts of the cluster.
  WorkerService(WorkerPool& pool, KeptReports& reports, WorkerMetrics& metrics, bool certificates,
                std::function<void(pb::FromDaemon)> report)
      : pool_(pool), reports_(reports), metrics_(metrics), certificates_(certificates), report_(std::move(report)) {}

  grpc::Status WorkerSession(grpc::ServerContext* context,
                             grpc::ServerReaderWriter<pb::ToWorker, pb::FromWorker>* stream) override {
    if (const absl::Status admitted = CheckClusterCaller(*context, certificates_); !admitted.ok()) {
      LOG(WARNING) << "refused to be a worker for " << context->peer() << ": " << admitted.message();
      return ToGrpc(admitted);
    }
    pb::FromDaemon message;
    pb::WorkerReport& report = *message.mutable_report();
    if (!stream->Read(report.mutable_message())) return grpc::Status::CANCELLED;
    if (!report.message().has_hello()) {
      return ToGrpc(absl::InvalidArgumentError("the first message of a worker must be its hello"));
    }
    const pb::WorkerHello hello = report.message().hello();
    absl::StatusOr<std::shared_ptr<WorkerPool::Messages>> messages = pool_.Attach(hello);
    if (!messages.ok()) return ToGrpc(messages.status());
    std::thread writer([&messages, stream] {
      while (!(*messages)->done()) {
        const std::optional<pb::ToWorker> next = (*messages)->Pop();
        if (next && !stream->Write(*next)) return;
      }
    });
    do {
      pool_.Heard(hello.job(), hello.process());
      if (report.message().has_alive()) continue;
      if (report.message().has_stats()) {
        metrics_.OnStats(hello.job(), hello.process(), report.message().stats());
        continue;
      }
      if (report.message().waits().request() != 0) {
        Answer(hello.job(), report.message().waits());
        continue;
      }
      report.set_job(hello.job());
      report.set_attempt(hello.attempt());
      report.set_process(hello.process());
      while (!reports_.AwaitRoom(kHeardEvery)) pool_.Heard(hello.job(), hello.process());
      report_(message);
    } while (stream->Read(report.mutable_message()));
    pool_.Detach(hello.job(), hello.process());
    writer.join();
    return grpc::Status::OK;
  }

 private:
  void Answer(int64_t job, const pb::WorkerWaits& waits) {
    pb::FromDaemon answer;
    answer.mutable_diagnosis()->set_request(waits.request());
    answer.mutable_diagnosis()->set_job(job);
    *answer.mutable_diagnosis()->mutable_waits() = waits.waits();
    reports_.AddForSession(std::move(answer));
  }

  WorkerPool& pool_;
  KeptReports& reports_;
  WorkerMetrics& metrics_;
  const bool certificates_;
  const std::function<void(pb::FromDaemon)> report_;
};

class DaemonImpl final : public Daemon {
 public:
  explicit DaemonImpl(DaemonOptions options)
      : options_(std::move(options)),
        incarnation_(absl::Uniform<uint64_t>(absl::BitGen())),
        reports_(options_.report_bytes) {}

  ~DaemonImpl() override {
    Stop();
    if (pool_ != nullptr) pool_->StopAll();
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kShutdown));
    server_->Wait();
  }

  absl::Status Begin() {
    OF_RETURN_IF_ERROR_AT(MayListen(options_.peer_host, access()), "--peer-host");
    const auto report = [this](pb::FromDaemon message) { Report(std::move(message)); };
    pool_ = std::make_unique<WorkerPool>(WorkerPoolOptions{.executable = options_.executable,
                                                           .work_dir = options_.work_dir,
                                                           .peer_host = options_.peer_host,
                                                           .identity = options_.identity,
                                                           .allowed = options_.allowed,
                                                           .parent_only = options_.parent_only,
                                                           .cuda_devices = options_.cuda_devices,
                                                           .stop_grace = options_.stop_grace,
                                                           .silence = options_.silence},
                                         report);
    service_ = std::make_unique<WorkerService>(*pool_, reports_, metrics_, !options_.identity.empty(), report);
    // Loopback: workers are our children. Port 0: any free one, which they learn from us.
    OF_ASSIGN_OR_RETURN_AT(Listener listener, Listen("127.0.0.1:0", {service_.get()}, access(), kOfWorkers),
                           absl::StrCat("daemon '", options_.name, "'"));
    server_ = std::move(listener.server);
    pool_->set_daemon_address(listener.address);
    if (options_.metrics.empty()) return absl::OkStatus();
    OF_ASSIGN_OR_RETURN(http_, ServeMetrics(options_.metrics, {.access = access()},
                                            [this](Families& families) { WriteMetrics(families); }));
    LOG(INFO) << "daemon '" << options_.name << "': metrics are at " << http_->url() << "/metrics";
    return absl::OkStatus();
  }

  absl::Status Run() override {
    const std::shared_ptr<grpc::Channel> channel = OpenChannel(options_.scheduler, options_.identity);
    const auto stub = pb::Scheduler::NewStub(channel);
    // Since when there is no scheduler; a pause of our own does not count.
    const auto now = [this] {
      return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()) - pool_->slept();
    };
    absl::Duration alone = now();
    while (!Stopping()) {
      const absl::Status connected = AwaitConnected(channel, "scheduler", kConnectTimeout, options_.identity);
      if (connected.ok()) {
        bool welcome = false;
        const absl::Status ended = RunSession(*stub, welcome);
        if (Stopping()) break;
        LOG(WARNING) << "daemon '" << options_.name << "': scheduler '" << options_.scheduler
                     << "': the session ended: " << ended.message();
        if (absl::IsInvalidArgument(ended)) return Annotate(ended, absl::StrCat("daemon '", options_.name, "'"));
        if (welcome) {
          alone = now();
        } else {
          Pause();
        }
      } else if (absl::IsPermissionDenied(connected)) {
        LOG_EVERY_T(WARNING, kLogEvery) << "daemon '" << options_.name << "': " << connected.message();
        Pause();
      }
      if (now() - alone > options_.lease && HasWorkers()) {
        LOG(WARNING) << "daemon '" << options_.name << "': no scheduler for " << options_.lease
                     << ": workers are killed";
        pool_->StopAll();
      }
    }
    pool_->StopAll();
    return absl::OkStatus();
  }

  void Stop() override {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }

 private:
  // What we know of a worker from the order to start it until its exit is stored.
  struct Started {
    pb::RunningWorker worker;
    int64_t exit_number = 0;  // of the report of its exit; 0: it has not exited
  };

  Access access() const { return {.identity = options_.identity, .insecure = options_.insecure}; }

  bool Stopping() {
    absl::MutexLock lock(&mu_);
    return stopping_;
  }

  void Pause() {
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(&stopping_), kPause);
  }

  bool HasWorkers() {
    absl::MutexLock lock(&mu_);
    return std::any_of(runs_.begin(), runs_.end(), [](const auto& entry) { return entry.second.exit_number == 0; });
  }

  // Of a worker, for the scheduler, now or when there is one.
  void Report(pb::FromDaemon message) {
    absl::MutexLock lock(&mu_);
    if (message.has_report() && message.report().message().has_hello()) {
      const pb::WorkerReport& report = message.report();
      const auto found = runs_.find({report.job(), report.attempt(), report.process()});
      if (found != runs_.end()) found->second.worker.set_pid(report.message().hello().pid());
    }
    const RunKey exited{message.exited().job(), message.exited().attempt(), message.exited().process()};
    const bool exits = message.has_exited();
    if (exits) metrics_.OnExit(message.exited().job(), message.exited().process());
    const int64_t number = reports_.Add(std::move(message));
    if (const auto found = runs_.find(exited); exits && found != runs_.end()) found->second.exit_number = number;
  }

  void OnStored(int64_t number) {
    reports_.Stored(number);
    absl::MutexLock lock(&mu_);
    std::erase_if(runs_, [number](const auto& entry) {
      return entry.second.exit_number > 0 && entry.second.exit_number <= number;
    });
  }

  absl::Status RunSession(pb::Scheduler::Stub& stub, bool& welcome) {
    grpc::ClientContext context;
    const auto stream = stub.DaemonSession(&context);
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) context.TryCancel();
      context_ = &context;
    }
    welcome = Converse(context, *stream);
    {
      absl::MutexLock lock(&mu_);
      context_ = nullptr;
    }
    return FromGrpc(stream->Finish());
  }

  pb::FromDaemon Hello() {
    pb::FromDaemon hello;
    pb::DaemonHello& about = *hello.mutable_hello();
    about.set_name(options_.name);
    about.set_host(options_.host);
    about.set_memory(options_.memory);
    about.set_pid(getpid());
    about.set_incarnation(incarnation_);
    about.set_cpu_devices(options_.cpu_devices);
    about.set_cuda_devices(options_.cuda_devices);
    about.set_cores(options_.cores);
    about.set_memory_bytes(options_.machine.memory_bytes);
    about.set_cuda_device_memory_bytes(options_.cuda_device_memory_bytes);
    about.mutable_links()->Assign(options_.machine.links.begin(), options_.machine.links.end());
    absl::MutexLock lock(&mu_);
    for (const auto& [key, run] : runs_) *about.add_workers() = run.worker;
    return hello;
  }

  // Whether the scheduler welcomed us.
  bool Converse(grpc::ClientContext& context, grpc::ClientReaderWriter<pb::FromDaemon, pb::ToDaemon>& stream) {
    pb::ToDaemon message;
    if (!stream.Write(Hello()) || !stream.Read(&message)) return false;
    if (!message.has_welcome()) {  // it does not speak our protocol
      context.TryCancel();
      return false;
    }
    KeepOnly(message.welcome());
    const absl::Duration heartbeat = absl::Milliseconds(message.welcome().heartbeat_ms());
    LOG(INFO) << "daemon '" << options_.name << "' is registered with scheduler '" << options_.scheduler << "'";
    if (options_.on_registered) options_.on_registered();
    reports_.BeginSession();
    std::thread writer([this, &stream, heartbeat] {
      pb::FromDaemon alive;
      alive.mutable_heartbeat();
      while (!reports_.session_ended()) {
        const std::optional<pb::FromDaemon> next = reports_.Next(heartbeat);
        if (!stream.Write(next ? *next : alive)) return;
      }
    });
    while (stream.Read(&message)) Obey(message);
    reports_.EndSession();
    writer.join();
    return true;
  }

  void KeepOnly(const pb::Welcome& welcome) {
    std::set<std::pair<int64_t, uint64_t>> kept;
    for (const pb::RunningWorker& worker : welcome.keep()) kept.insert({worker.job(), worker.attempt()});
    pool_->StopOthers(kept);
  }

  void Start(pb::StartWorker start) {
    pb::JobSpec& spec = *start.mutable_spec();
    if (!spec.plan().empty()) {
      plan_ = spec.plan();
      plan_hash_ = spec.plan_hash();
    } else if (spec.plan_hash() == plan_hash_) {
      spec.set_plan(plan_);
    }
    {
      absl::MutexLock lock(&mu_);
      pb::RunningWorker& worker = runs_[{start.job(), start.attempt(), start.process()}].worker;
      worker.set_job(start.job());
      worker.set_attempt(start.attempt());
      worker.set_process(start.process());
    }
    if (http_ != nullptr) metrics_.OnStart(start);
    pool_->Start(start);
  }

  void WriteMetrics(Families& families) {
    metrics_.Write(families);
    families.Gauge("oneflow_daemon_connected", "Whether the scheduler knows the daemon now", {},
                   reports_.session_ended() ? 0 : 1);
    families.Gauge("oneflow_daemon_kept_bytes", "What workers reported and the scheduler has not stored yet", {},
                   static_cast<double>(reports_.num_bytes()));
  }

  void Tell(const pb::ToWorkerEnvelope& envelope) {
    {
      absl::MutexLock lock(&mu_);
      const auto found = runs_.find({envelope.job(), envelope.attempt(), envelope.process()});
      if (found == runs_.end()) return;  // it is gone
      if (envelope.message().has_start()) found->second.worker.set_started(true);
      if (envelope.message().has_dismissal()) found->second.worker.set_dismissed(true);
    }
    pool_->Tell(envelope.job(), envelope.attempt(), envelope.process(), envelope.message());
  }

  void AnswerLogs(const pb::LogsQuery& query) {
    pb::FromDaemon answer;
    answer.mutable_logs()->set_request(query.request());
    pb::WorkerLog& log = *answer.mutable_logs()->mutable_log();
    log.set_process(query.process());
    log.set_daemon(options_.name);
    const std::optional<int64_t> offset = query.has_offset() ? std::optional(query.offset()) : std::nullopt;
    LogPart part = pool_->Log(query.job(), query.process(), offset);
    log.set_text(std::move(part.text));
    log.set_next_offset(part.next_offset);
    reports_.AddForSession(std::move(answer));
  }

  void Obey(const pb::ToDaemon& message) {
    switch (message.kind_case()) {
      case pb::ToDaemon::kStart:
        return Start(message.start());
      case pb::ToDaemon::kToWorker:
        return Tell(message.to_worker());
      case pb::ToDaemon::kStop:
        return pool_->StopJob(message.stop().job(), message.stop().attempt());
      case pb::ToDaemon::kDiagnose:
        return PassOn(message.diagnose());
      case pb::ToDaemon::kLogs:
        return AnswerLogs(message.logs());
      case pb::ToDaemon::kForget:
        return pool_->DeleteLogs(message.forget().job());
      case pb::ToDaemon::kStored:
        return OnStored(message.stored().number());
      case pb::ToDaemon::kWelcome:
      case pb::ToDaemon::KIND_NOT_SET:
        return;
    }
  }

  // The worker answers, if it is there.
  void PassOn(const pb::DiagnosisQuery& query) {
    pb::ToWorker question;
    question.mutable_diagnose()->set_request(query.request());
    if (pool_->Tell(query.job(), query.attempt(), query.process(), std::move(question))) return;
    pb::FromDaemon answer;
    answer.mutable_diagnosis()->set_request(query.request());
    answer.mutable_diagnosis()->set_job(query.job());
    answer.mutable_diagnosis()->mutable_waits()->set_process(query.process());
    answer.mutable_diagnosis()->mutable_waits()->set_silent("does not run any more");
    reports_.AddForSession(std::move(answer));
  }

  using RunKey = std::tuple<int64_t, uint64_t, int>;  // job, attempt, process

  const DaemonOptions options_;
  const uint64_t incarnation_;
  KeptReports reports_;
  WorkerMetrics metrics_;
  std::unique_ptr<HttpServer> http_;  // null: nobody asks for metrics
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string plan_, plan_hash_;  // of the last StartWorker that brought one; of the session's thread
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;  // of the session, if there is one
  std::map<RunKey, Started> runs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(DaemonOptions options) {
  auto daemon = std::make_unique<DaemonImpl>(std::move(options));
  OF_RETURN_IF_ERROR(daemon->Begin());
  return daemon;
}

}  // namespace oneflow
