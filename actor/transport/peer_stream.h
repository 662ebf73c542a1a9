// The two ends of a gRPC stream between processes, behind one interface: the end that listens and the end that calls.
// They pass on what gRPC says and do what they are told; StreamState says what may be done when.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "actor/transport/stream_state.h"
#include "oneflow_core/status.h"
#include "proto/peer.grpc.pb.h"
#include "proto/peer.pb.h"

namespace oneflow {

// `in` belongs to the read in flight or to the reaction to it, `out` to the write in flight; the rest to the owner.
class PeerStream {
 public:
  // Called on gRPC's threads.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnRead(PeerStream* stream, bool ok) = 0;
    virtual void OnWrite(PeerStream* stream, bool ok) = 0;
    // The last call, which deletes the stream. `status` is how the call ended, on the calling end.
    virtual void OnEnd(PeerStream* stream, const absl::Status& status) = 0;
  };

  virtual ~PeerStream() = default;
  // The actions of a StreamState.
  virtual void Read() = 0;
  virtual void Write() = 0;
  virtual void Refuse(const absl::Status& status) = 0;
  virtual void HalfClose() = 0;
  virtual void Release() = 0;
  virtual void Cancel() = 0;
  // The peer's credentials. On the calling end: once something was read.
  virtual std::shared_ptr<const grpc::AuthContext> Shown() const = 0;

  int process = -1;  // the peer; on the listening end known after its hello
  StreamState state;
  pb::PeerFrame in;
  pb::PeerFrame out;
};

// What both ends have alike.
template <typename Reactor>
class StreamEnd : public Reactor, public PeerStream {
 public:
  explicit StreamEnd(Owner& owner) : owner_(owner) {}
  void Read() override { this->StartRead(&in); }
  void Write() override { this->StartWrite(&out); }
  void OnReadDone(bool ok) override { owner_.OnRead(this, ok); }
  void OnWriteDone(bool ok) override { owner_.OnWrite(this, ok); }

 protected:
  Owner& owner_;
};

class ListeningEnd final : public StreamEnd<grpc::ServerBidiReactor<pb::PeerFrame, pb::PeerFrame>> {
 public:
  ListeningEnd(Owner& owner, grpc::CallbackServerContext* context) : StreamEnd(owner), context_(context) {}
  void Refuse(const absl::Status& status) override;
  void HalfClose() override { FinishOnce(grpc::Status::OK); }
  void Release() override { FinishOnce(grpc::Status::OK); }
  void Cancel() override { context_->TryCancel(); }
  std::shared_ptr<const grpc::AuthContext> Shown() const override { return context_->auth_context(); }
  void OnDone() override { owner_.OnEnd(this, absl::OkStatus()); }

 private:
  void FinishOnce(const grpc::Status& status) {
    if (!std::exchange(finished_, true)) Finish(status);
  }

  grpc::CallbackServerContext* const context_;
  bool finished_ = false;
};

class CallingEnd final : public StreamEnd<grpc::ClientBidiReactor<pb::PeerFrame, pb::PeerFrame>> {
 public:
  CallingEnd(Owner& owner, pb::Peer::Stub& stub);
  void Refuse(const absl::Status&) override { context_.TryCancel(); }
  void HalfClose() override { StartWritesDone(); }
  void Release() override { RemoveHold(); }
  void Cancel() override { context_.TryCancel(); }
  std::shared_ptr<const grpc::AuthContext> Shown() const override { return context_.auth_context(); }
  void OnDone(const grpc::Status& status) override;

 private:
  grpc::ClientContext context_;
};

}  // namespace oneflow
