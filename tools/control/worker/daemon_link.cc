#include "tools/control/worker/daemon_link.h"

#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "actor/awake_clock.h"
#include "proto/control.grpc.pb.h"
#include "tools/control/rpc/outbox.h"
#include "tools/control/rpc/rpc.h"

namespace oneflow {
namespace {

constexpr absl::Duration kConnect =
    absl::Seconds(10);  // the daemon listens before it starts us; a busy machine is slow
constexpr absl::Duration kDrain = absl::Seconds(5);
constexpr absl::Duration kHeartbeat = absl::Milliseconds(400);  // well below WorkerPoolOptions::silence

class GrpcLink final : public DaemonLink {
 public:
  GrpcLink(std::shared_ptr<grpc::Channel> channel, std::function<void(absl::Status)> on_lost,
           std::function<pb::ProcessWaits()> waits)
      : stub_(pb::Daemon::NewStub(std::move(channel))), on_lost_(std::move(on_lost)), waits_(std::move(waits)) {}

  ~GrpcLink() override { Close(); }

  void Begin(const pb::WorkerHello& hello) {
    stream_ = stub_->WorkerSession(&context_);
    pb::FromWorker first;
    *first.mutable_hello() = hello;
    reports_.Add(std::move(first));
    writer_ = std::thread([this] {
      while (const std::optional<pb::FromWorker> message = reports_.Pop()) {
        if (!stream_->Write(*message)) return;  // the reader learns why
      }
      stream_->WritesDone();
    });
    reader_ = std::thread([this] { ReadLoop(); });
  }

  absl::StatusOr<pb::ToWorker> Receive(absl::Duration timeout) override {
    if (std::optional<pb::ToWorker> message = received_.Pop(timeout)) return *std::move(message);
    if (received_.done()) return absl::UnavailableError("the daemon closed the connection");
    return absl::DeadlineExceededError(absl::StrCat("the daemon said nothing for ", absl::FormatDuration(timeout)));
  }

  const std::atomic<bool>& asked_to_stop() const override { return asked_to_stop_; }

  const std::atomic<int64_t>& asked_to_save() const override { return asked_to_save_; }

  ReportQueue& reports() override { return reports_; }

  bool Close() override {
    if (!reader_.joinable()) return drained_;
    {
      absl::MutexLock lock(&mu_);
      closing_ = true;
    }
    reports_.Close();
    {
      absl::MutexLock lock(&mu_);
      if (!AwaitAwake(mu_, absl::Condition(&ended_), kDrain)) context_.TryCancel();
    }
    writer_.join();
    reader_.join();
    return drained_;
  }

 private:
  void ReadLoop() {
    pb::ToWorker message;
    while (stream_->Read(&message)) {
      if (message.has_stop()) {
        asked_to_stop_ = true;
      } else if (message.has_save()) {
        ++asked_to_save_;
      } else if (message.has_diagnose()) {
        Answer(message.diagnose());
      } else {
        received_.Push(std::move(message));
      }
    }
    received_.Close();
    bool lost;
    {
      absl::MutexLock lock(&mu_);
      lost = !closing_;
    }
    absl::Status end;
    if (lost) {
      // Finish() waits for our own last write, which nobody may ever ask for now.
      context_.TryCancel();
      on_lost_(absl::UnavailableError("the connection to the daemon broke"));
    } else {
      end = FromGrpc(stream_->Finish());
    }
    absl::MutexLock lock(&mu_);
    drained_ = !lost && end.ok();
    ended_ = true;
  }

  void Answer(const pb::WorkerDiagnose& question) {
    pb::FromWorker answer;
    answer.mutable_waits()->set_request(question.request());
    *answer.mutable_waits()->mutable_waits() = waits_();
    reports_.Add(std::move(answer));
  }

  const std::unique_ptr<pb::Daemon::Stub> stub_;
  const std::function<void(absl::Status)> on_lost_;
  const std::function<pb::ProcessWaits()> waits_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<pb::FromWorker, pb::ToWorker>> stream_;
  ReportQueue reports_{absl::Milliseconds(100), kHeartbeat};
  Outbox<pb::ToWorker> received_;
  std::atomic<bool> asked_to_stop_ = false;
  std::atomic<int64_t> asked_to_save_ = 0;
  absl::Mutex mu_;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool drained_ = false;  // written by the reader, read after it is joined
  std::thread writer_, reader_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DaemonLink>> DaemonLink::Open(const std::string& address, const pb::WorkerHello& hello,
                                                             std::function<void(absl::Status)> on_lost,
                                                             std::function<pb::ProcessWaits()> waits,
                                                             const TlsIdentity& identity) {
  const std::shared_ptr<grpc::Channel> channel = OpenChannel(address, identity);
  OF_RETURN_IF_ERROR(AwaitConnected(channel, absl::StrCat("daemon '", address, "'"), kConnect, identity));
  auto link = std::make_unique<GrpcLink>(channel, std::move(on_lost), std::move(waits));
  link->Begin(hello);
  return link;
}

}  // namespace oneflow
