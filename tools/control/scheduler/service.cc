#include "tools/control/scheduler/service.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "glog/logging.h"
#include "proto/control.grpc.pb.h"
#include "tools/control/metrics/metrics_server.h"
#include "tools/control/process/random_number.h"
#include "tools/control/rpc/rpc.h"
#include "tools/control/scheduler/core.h"
#include "tools/control/scheduler/gate.h"
#include "tools/control/scheduler/spec.h"

namespace oneflow {
namespace {

constexpr absl::Duration kLastCalls = absl::Seconds(2);

// The calls of gRPC: each is admitted, asks the core, and says the answer.
class Calls final : public pb::Scheduler::Service {
 public:
  // Both are borrowed.
  Calls(SchedulerCore& core, Gate& gate) : core_(core), gate_(gate) {}

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
    const absl::StatusOr<int64_t> job = core_.Submit(std::move(accepted));
    if (job.ok()) reply->set_job(*job);
    return ToGrpc(job.status());
  }

  grpc::Status Cancel(grpc::ServerContext* context, const pb::CancelRequest* request, pb::CancelReply*) override {
    return Change(*context, "cancel", request->job(),
                  [&](SchedulerCore::May may) { return core_.Cancel(request->job(), request->gently(), may); });
  }

  grpc::Status Save(grpc::ServerContext* context, const pb::SaveRequest* request, pb::SaveReply*) override {
    return Change(*context, "save", request->job(),
                  [&](SchedulerCore::May may) { return core_.Save(request->job(), may); });
  }

  grpc::Status Retry(grpc::ServerContext* context, const pb::RetryRequest* request, pb::RetryReply*) override {
    return Change(*context, "retry", request->job(),
                  [&](SchedulerCore::May may) { return core_.Retry(request->job(), may); });
  }

  grpc::Status Drain(grpc::ServerContext* context, const pb::DrainRequest* request, pb::DrainReply*) override {
    const absl::StatusOr<Caller> caller = gate_.Admit(*context, "drain a node", UserRole::kAdmin);
    return ToGrpc(caller.ok() ? core_.Drain(request->node(), request->undo()) : caller.status());
  }

  grpc::Status List(grpc::ServerContext* context, const pb::ListRequest*, pb::ListReply* reply) override {
    const absl::StatusOr<Caller> caller = gate_.Admit(*context, "list jobs", UserRole::kRead);
    if (!caller.ok()) return ToGrpc(caller.status());
    for (pb::JobStatus& status : core_.List()) *reply->add_jobs() = std::move(status);
    return grpc::Status::OK;
  }

  grpc::Status Nodes(grpc::ServerContext* context, const pb::NodesRequest*, pb::NodesReply* reply) override {
    const absl::StatusOr<Caller> caller = gate_.Admit(*context, "list nodes", UserRole::kRead);
    if (caller.ok()) *reply = core_.NodesWithJobs();
    return ToGrpc(caller.status());
  }

  grpc::Status Logs(grpc::ServerContext* context, const pb::LogsRequest* request, pb::LogsReply* reply) override {
    const absl::StatusOr<Caller> caller =
        gate_.Admit(*context, absl::StrCat("read the logs of job ", request->job()), UserRole::kRead);
    if (!caller.ok()) return ToGrpc(caller.status());
    absl::StatusOr<pb::LogsReply> logs = core_.Logs(*request);
    if (logs.ok()) *reply = *std::move(logs);
    return ToGrpc(logs.status());
  }

  grpc::Status Diagnose(grpc::ServerContext* context, const pb::DiagnoseRequest* request,
                        pb::DiagnoseReply* reply) override {
    const absl::StatusOr<Caller> caller =
        gate_.Admit(*context, absl::StrCat("diagnose job ", request->job()), UserRole::kRead);
    if (!caller.ok()) return ToGrpc(caller.status());
    absl::StatusOr<std::string> text = core_.Diagnose(request->job());
    if (text.ok()) reply->set_text(*std::move(text));
    return ToGrpc(text.status());
  }

  grpc::Status Describe(grpc::ServerContext* context, const pb::DescribeRequest* request,
                        pb::DescribeReply* reply) override {
    const absl::StatusOr<Caller> caller =
        gate_.Admit(*context, absl::StrCat("describe job ", request->job()), UserRole::kRead);
    if (!caller.ok()) return ToGrpc(caller.status());
    absl::StatusOr<pb::DescribeReply> described = core_.Describe(request->job(), request->with_plan());
    if (described.ok()) *reply = *std::move(described);
    return ToGrpc(described.status());
  }

  grpc::Status Watch(grpc::ServerContext* context, const pb::WatchRequest* request,
                     grpc::ServerWriter<pb::JobEvent>* writer) override {
    const absl::StatusOr<Caller> caller =
        gate_.Admit(*context, absl::StrCat("watch job ", request->job()), UserRole::kRead);
    if (!caller.ok()) return ToGrpc(caller.status());
    SchedulerCore::Watcher watcher(core_, request->job(), std::max<int64_t>(request->from_sequence(), 0));
    if (watcher.too_many()) {
      return ToGrpc(absl::ResourceExhaustedError(absl::StrCat(kMostWatchers, " watch jobs already")));
    }
    while (true) {
      const absl::StatusOr<std::vector<pb::JobEvent>> events =
          watcher.Await([context] { return context->IsCancelled(); });
      if (!events.ok()) return ToGrpc(events.status());
      if (events->empty()) return grpc::Status::OK;  // there will be no more
      for (const pb::JobEvent& event : *events) {
        if (!writer->Write(event)) return grpc::Status::CANCELLED;
      }
      watcher.OnRead(*events);
    }
  }

  grpc::Status DaemonSession(grpc::ServerContext* context,
                             grpc::ServerReaderWriter<pb::ToDaemon, pb::FromDaemon>* stream) override {
    if (const absl::Status admitted = gate_.AdmitDaemon(*context); !admitted.ok()) return ToGrpc(admitted);
    pb::FromDaemon message;
    if (!stream->Read(&message)) return grpc::Status::CANCELLED;
    if (!message.has_hello()) {
      return ToGrpc(absl::InvalidArgumentError("the first message of a daemon must be its hello"));
    }
    const std::string name = message.hello().name();
    SchedulerCore::Session session{.cancel = [context] { context->TryCancel(); }};
    const absl::StatusOr<SessionId> id = core_.Register(message.hello(), session);
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
    absl::Time heard = core_.Now();
    while (stream->Read(&message)) {
      heard = core_.OnHeard(heard);
      core_.OnMessage(*id, message);
    }
    const absl::Status end = core_.Unregister(*id, session);
    writer.join();
    LOG(INFO) << "daemon '" << name << "' is gone: " << end.message();
    return ToGrpc(end);
  }

 private:
  // Lets `change` change the job, if the caller may do more to it than look at it.
  template <typename Fn>
  grpc::Status Change(const grpc::ServerContext& context, const char* verb, int64_t job, const Fn& change) {
    const std::string asked = absl::StrCat(verb, " job ", job);
    const absl::StatusOr<Caller> caller = gate_.Admit(context, asked, UserRole::kSubmit);
    if (!caller.ok()) return ToGrpc(caller.status());
    return ToGrpc(change(
        [&](const pb::JobStatus& status) { return gate_.AdmitToJobOf(status.user(), *caller, context, asked); }));
  }

  SchedulerCore& core_;
  Gate& gate_;
};

class Server final : public SchedulerServer {
 public:
  Server(std::unique_ptr<Store> store, const SchedulerOptions& options)
      : access_{.identity = options.identity, .insecure = options.insecure},
        core_(std::move(store), options.limits, options.keep),
        gate_(!options.identity.empty(), options.tokens),
        calls_(core_, gate_) {}

  ~Server() override { Stop(); }

  absl::Status Begin(const SchedulerOptions& options) {
    OF_RETURN_IF_ERROR(core_.Restore());
    if (!options.metrics.empty()) {
      OF_ASSIGN_OR_RETURN(metrics_server_, ServeMetrics(options.metrics, AccessToLook("read the metrics"),
                                                        [this](Families& families) { core_.WriteMetrics(families); }));
      LOG(INFO) << "metrics are at " << metrics_server_->url() << "/metrics";
    }
    if (!options.page.empty()) {
      if (options.serve_page == nullptr) return absl::UnimplementedError("--page: this program has none");
      OF_ASSIGN_OR_RETURN(page_, options.serve_page(options.page, AccessToLook("look at the page"), core_,
                                                    options.executable, options.allowed));
      LOG(INFO) << "the page is at " << page_url();
    }
    OF_ASSIGN_OR_RETURN_AT(Listener listener, Listen(options.address, {&calls_}, access_), "scheduler");
    server_ = std::move(listener.server);
    address_ = std::move(listener.address);
    core_.Start();
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  std::string page_url() const override { return page_ == nullptr ? "" : page_->url() + "/"; }

  void Stop() override {
    core_.Stop();
    absl::MutexLock once(&stop_mu_);
    metrics_server_.reset();
    page_.reset();
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kLastCalls));
      server_->Wait();
      server_.reset();
    }
    core_.End();
  }

  absl::Status Wait() override { return core_.Wait(); }

 private:
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

  const Access access_;
  SchedulerCore core_;
  Gate gate_;
  Calls calls_;
  absl::Mutex stop_mu_;
  // Written before others see this object, and under stop_mu_.
  std::unique_ptr<HttpServer> metrics_server_, page_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
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
