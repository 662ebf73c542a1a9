#include "tools/daemon/daemon.h"

#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "glog/logging.h"
#include "proto/control.grpc.pb.h"
#include "tools/daemon/worker_pool.h"
#include "tools/rpc/outbox.h"
#include "tools/rpc/rpc.h"

namespace oneflow {
namespace {

// How long one try to connect may take, and thus how late Stop() and the lease are seen meanwhile.
constexpr absl::Duration kConnectTimeout = absl::Milliseconds(200);
// After a session that the scheduler refused or ended; connecting itself backs off within gRPC.
constexpr absl::Duration kPause = absl::Milliseconds(500);
// For workers' calls at the end; they are dead by then.
constexpr absl::Duration kShutdown = absl::Milliseconds(500);

// Where workers report: passes on what they say, and tells them what the pool has for them.
class WorkerService final : public pb::Daemon::Service {
 public:
  WorkerService(WorkerPool& pool, std::function<void(pb::FromDaemon)> report)
      : pool_(pool), report_(std::move(report)) {}

  grpc::Status WorkerSession(grpc::ServerContext*,
                             grpc::ServerReaderWriter<pb::ToWorker, pb::FromWorker>* stream) override {
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
      if (report.message().waits().request() != 0) {
        Answer(hello.job(), report.message().waits());
        continue;
      }
      report.set_job(hello.job());
      report.set_attempt(hello.attempt());
      report.set_process(hello.process());
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
    report_(std::move(answer));
  }

  WorkerPool& pool_;
  const std::function<void(pb::FromDaemon)> report_;
};

class DaemonImpl final : public Daemon {
 public:
  explicit DaemonImpl(DaemonOptions options) : options_(std::move(options)) {}

  ~DaemonImpl() override {
    Stop();
    if (pool_ != nullptr) pool_->StopAll();
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kShutdown));
    server_->Wait();
  }

  absl::Status Begin() {
    const auto report = [this](pb::FromDaemon message) { Report(std::move(message)); };
    pool_ = std::make_unique<WorkerPool>(WorkerPoolOptions{.executable = options_.executable,
                                                           .work_dir = options_.work_dir,
                                                           .peer_host = options_.peer_host,
                                                           .cuda_devices = options_.cuda_devices,
                                                           .stop_grace = options_.stop_grace},
                                         report);
    service_ = std::make_unique<WorkerService>(*pool_, report);
    // Loopback: workers are our children. Port 0: any free one, which they learn from us.
    OF_ASSIGN_OR_RETURN_AT(Listener listener, Listen("127.0.0.1:0", {service_.get()}),
                           absl::StrCat("daemon '", options_.name, "'"));
    server_ = std::move(listener.server);
    pool_->set_daemon_address(listener.address);
    return absl::OkStatus();
  }

  absl::Status Run() override {
    const std::shared_ptr<grpc::Channel> channel = OpenChannel(options_.scheduler);
    const auto stub = pb::Scheduler::NewStub(channel);
    absl::Time lost = absl::Now();
    bool leased = false;  // workers may be running
    while (!Stopping()) {
      if (AwaitConnected(*channel, "scheduler", kConnectTimeout).ok()) {
        pool_->StopAll();  // those of a former session
        leased = true;
        const absl::Status ended = RunSession(*stub);
        lost = absl::Now();
        if (Stopping()) break;
        LOG(WARNING) << "daemon '" << options_.name << "': scheduler '" << options_.scheduler
                     << "': the session ended: " << ended.message();
        if (absl::IsInvalidArgument(ended)) return Annotate(ended, absl::StrCat("daemon '", options_.name, "'"));
        Pause();
      } else if (leased && absl::Now() - lost > options_.lease) {
        LOG(WARNING) << "daemon '" << options_.name << "': no scheduler for " << options_.lease
                     << ": workers are killed";
        pool_->StopAll();
        leased = false;
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
  using Reports = Outbox<pb::FromDaemon>;

  bool Stopping() {
    absl::MutexLock lock(&mu_);
    return stopping_;
  }

  void Pause() {
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(&stopping_), kPause);
  }

  // To the scheduler, if there is a session; otherwise nobody wants to know.
  void Report(pb::FromDaemon message) {
    absl::MutexLock lock(&mu_);
    if (reports_ != nullptr) reports_->Push(std::move(message));
  }

  absl::Status RunSession(pb::Scheduler::Stub& stub) {
    grpc::ClientContext context;
    Reports reports;
    const auto stream = stub.DaemonSession(&context);
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) context.TryCancel();
      context_ = &context;
      reports_ = &reports;
    }
    Converse(context, *stream, reports);
    {
      absl::MutexLock lock(&mu_);
      context_ = nullptr;
      reports_ = nullptr;
    }
    return FromGrpc(stream->Finish());
  }

  void Converse(grpc::ClientContext& context, grpc::ClientReaderWriter<pb::FromDaemon, pb::ToDaemon>& stream,
                Reports& reports) {
    pb::FromDaemon hello;
    pb::DaemonHello& about = *hello.mutable_hello();
    about.set_name(options_.name);
    about.set_host(options_.host);
    about.set_pid(getpid());
    about.set_cpu_devices(options_.cpu_devices);
    about.set_cuda_devices(options_.cuda_devices);
    about.set_cores(options_.cores);
    pb::ToDaemon message;
    if (!stream.Write(hello) || !stream.Read(&message)) return;
    if (!message.has_welcome()) return context.TryCancel();  // it does not speak our protocol
    const absl::Duration heartbeat = absl::Milliseconds(message.welcome().heartbeat_ms());
    LOG(INFO) << "daemon '" << options_.name << "' is registered with scheduler '" << options_.scheduler << "'";
    if (options_.on_registered) options_.on_registered();
    std::thread writer([&stream, &reports, heartbeat] {
      pb::FromDaemon alive;
      alive.mutable_heartbeat();
      while (!reports.done()) {
        const std::optional<pb::FromDaemon> next = reports.Pop(heartbeat);
        if (!stream.Write(next ? *next : alive)) return;
      }
    });
    while (stream.Read(&message)) Obey(message);
    reports.Close();
    writer.join();
  }

  void Obey(const pb::ToDaemon& message) {
    switch (message.kind_case()) {
      case pb::ToDaemon::kStart:
        return pool_->Start(message.start());
      case pb::ToDaemon::kToWorker:
        pool_->Tell(message.to_worker().job(), message.to_worker().attempt(), message.to_worker().process(),
                    message.to_worker().message());
        return;
      case pb::ToDaemon::kStop:
        return pool_->StopJob(message.stop().job(), message.stop().attempt());
      case pb::ToDaemon::kDiagnose:
        return PassOn(message.diagnose());
      case pb::ToDaemon::kLogs: {
        pb::FromDaemon answer;
        answer.mutable_logs()->set_request(message.logs().request());
        pb::WorkerLog& log = *answer.mutable_logs()->mutable_log();
        log.set_process(message.logs().process());
        log.set_daemon(options_.name);
        log.set_text(pool_->Log(message.logs().job(), message.logs().process()));
        return Report(std::move(answer));
      }
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
    Report(std::move(answer));
  }

  const DaemonOptions options_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<grpc::Server> server_;
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;  // of the session, if there is one
  Reports* reports_ ABSL_GUARDED_BY(mu_) = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(DaemonOptions options) {
  auto daemon = std::make_unique<DaemonImpl>(std::move(options));
  OF_RETURN_IF_ERROR(daemon->Begin());
  return daemon;
}

}  // namespace oneflow
