#include "tools/control/client.h"

#include <pwd.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/control.grpc.pb.h"
#include "tools/control/rpc/rpc.h"

namespace oneflow {
namespace {

// Longer than the scheduler needs in the worst case (a query of logs that a daemon does not answer: 5 s).
constexpr std::chrono::seconds kCallLimit(15);
constexpr absl::Duration kAskAgain = absl::Milliseconds(100);  // before a scheduler that was lost is asked again

// Of the user whose process this is.
std::string UserName() {
  passwd entry;
  passwd* found = nullptr;
  char text[4096];
  if (getpwuid_r(getuid(), &entry, text, sizeof(text), &found) == 0 && found != nullptr) return found->pw_name;
  return absl::StrCat("uid ", getuid());
}

class GrpcClient final : public Client {
 public:
  GrpcClient(std::shared_ptr<grpc::Channel> channel, std::string where, TlsIdentity identity, std::string token,
             absl::Duration patience)
      : where_(std::move(where)),
        identity_(std::move(identity)),
        token_(std::move(token)),
        patience_(patience),
        channel_(std::move(channel)),
        stub_(pb::Scheduler::NewStub(channel_)) {}

  absl::StatusOr<int64_t> Submit(const pb::JobSpec& spec, int priority) override {
    pb::SubmitRequest request;
    *request.mutable_spec() = spec;
    request.set_user(UserName());
    request.set_priority(priority);
    OF_ASSIGN_OR_RETURN(const pb::SubmitReply reply, Ask(&pb::Scheduler::Stub::Submit, request));
    return reply.job();
  }

  absl::Status Watch(int64_t job, int64_t from_sequence,
                     const std::function<bool(const pb::JobEvent&)>& on_event) override {
    while (true) {
      const absl::Status ended = WatchOnce(job, from_sequence, on_event);
      if (!absl::IsUnavailable(ended) || patience_ <= absl::ZeroDuration()) return ended;
      absl::SleepFor(kAskAgain);
      if (!AwaitConnected(channel_, where_, patience_, identity_).ok()) return ended;
    }
  }

  absl::Status Cancel(int64_t job, bool gently) override {
    auto request = About<pb::CancelRequest>(job);
    request.set_gently(gently);
    return Ask(&pb::Scheduler::Stub::Cancel, request).status();
  }

  absl::Status Save(int64_t job) override {
    return Ask(&pb::Scheduler::Stub::Save, About<pb::SaveRequest>(job)).status();
  }

  absl::StatusOr<std::vector<pb::JobStatus>> List() override {
    OF_ASSIGN_OR_RETURN(const pb::ListReply reply, Ask(&pb::Scheduler::Stub::List, pb::ListRequest()));
    return std::vector<pb::JobStatus>(reply.jobs().begin(), reply.jobs().end());
  }

  absl::StatusOr<std::string> Diagnose(int64_t job) override {
    OF_ASSIGN_OR_RETURN(const pb::DiagnoseReply reply,
                        Ask(&pb::Scheduler::Stub::Diagnose, About<pb::DiagnoseRequest>(job)));
    return reply.text();
  }

  absl::StatusOr<std::vector<pb::WorkerLog>> Logs(int64_t job, int process) override {
    auto request = About<pb::LogsRequest>(job);
    if (process >= 0) request.set_process(process);
    OF_ASSIGN_OR_RETURN(const pb::LogsReply reply, Ask(&pb::Scheduler::Stub::Logs, request));
    return std::vector<pb::WorkerLog>(reply.logs().begin(), reply.logs().end());
  }

  absl::StatusOr<pb::WorkerLog> LogFrom(int64_t job, int process, int64_t offset) override {
    auto request = About<pb::LogsRequest>(job);
    request.set_process(process);
    request.set_offset(offset);
    OF_ASSIGN_OR_RETURN(const pb::LogsReply reply, Ask(&pb::Scheduler::Stub::Logs, request));
    if (reply.logs_size() == 1) return reply.logs(0);
    return absl::InternalError(absl::StrCat(where_, ": asked for one log, and got ", reply.logs_size()));
  }

  absl::StatusOr<pb::DescribeReply> Describe(int64_t job, bool with_plan) override {
    auto request = About<pb::DescribeRequest>(job);
    request.set_with_plan(with_plan);
    return Ask(&pb::Scheduler::Stub::Describe, request);
  }

  absl::StatusOr<std::vector<pb::Node>> Nodes() override {
    OF_ASSIGN_OR_RETURN(const pb::NodesReply reply, Ask(&pb::Scheduler::Stub::Nodes, pb::NodesRequest()));
    return std::vector<pb::Node>(reply.nodes().begin(), reply.nodes().end());
  }

  absl::Status Drain(const std::string& node, bool undo) override {
    pb::DrainRequest request;
    request.set_node(node);
    request.set_undo(undo);
    return Ask(&pb::Scheduler::Stub::Drain, request).status();
  }

  absl::Status Retry(int64_t job) override {
    return Ask(&pb::Scheduler::Stub::Retry, About<pb::RetryRequest>(job)).status();
  }

 private:
  template <typename Request>
  static Request About(int64_t job) {
    Request request;
    request.set_job(job);
    return request;
  }

  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Ask(grpc::Status (pb::Scheduler::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                            const Request& request) {
    grpc::ClientContext context;
    ShowToken(context);
    context.set_deadline(std::chrono::system_clock::now() + kCallLimit);
    Reply reply;
    OF_RETURN_IF_ERROR(Annotate(FromGrpc((stub_.get()->*method)(&context, request, &reply)), where_));
    return reply;
  }

  void ShowToken(grpc::ClientContext& context) const {
    if (!token_.empty()) context.AddMetadata(kTokenKey, token_);
  }

  // `next` goes on with what is read.
  absl::Status WatchOnce(int64_t job, int64_t& next, const std::function<bool(const pb::JobEvent&)>& on_event) {
    pb::WatchRequest request;
    request.set_job(job);
    request.set_from_sequence(next);
    grpc::ClientContext context;
    ShowToken(context);
    const auto reader = stub_->Watch(&context, request);
    pb::JobEvent event;
    while (reader->Read(&event)) {
      next = event.sequence() + 1;
      if (on_event(event)) continue;
      context.TryCancel();
      reader->Finish();
      return absl::OkStatus();
    }
    return Annotate(FromGrpc(reader->Finish()), where_);
  }

  const std::string where_;
  const TlsIdentity identity_;
  const std::string token_;  // empty: none, or the channel is open to others
  const absl::Duration patience_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<pb::Scheduler::Stub> stub_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const SchedulerAddress& scheduler, absl::Duration timeout,
                                                        absl::Duration patience) {
  const std::shared_ptr<grpc::Channel> channel = OpenChannel(scheduler.address, scheduler.identity);
  std::string where = absl::StrCat("scheduler '", scheduler.address, "'");
  const bool is_secret = !scheduler.identity.empty() || IsLoopback(scheduler.address);
  OF_RETURN_IF_ERROR(AwaitConnected(channel, where, timeout, scheduler.identity));
  return std::make_unique<GrpcClient>(channel, std::move(where), scheduler.identity, is_secret ? scheduler.token : "",
                                      patience);
}

}  // namespace oneflow
