#include "actor/transport/peer_network.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "absl/strings/str_join.h"
#include "actor/awake_clock.h"
#include "actor/transport/peer_frames.h"
#include "glog/logging.h"
#include "proto/peer.grpc.pb.h"

namespace oneflow {
namespace {

// How long a closing process tries to send its last frames (an error, a barrier).
constexpr std::chrono::seconds kFlushTime(2);
// The quickest of this many round trips says the most about a clock; each takes some 50 us within a host.
constexpr int kClockQuestions = 16;

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}
absl::Status NotOfCluster() { return absl::PermissionDeniedError("its certificate is of no part of the cluster"); }
grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace

// Shared by both ends of a stream. Its state is guarded by the network's mutex; `in` belongs to the read in flight or
// to the reaction to it, `out` to the write in flight.
class PeerNetwork::Impl : public pb::Peer::CallbackService {
 public:
  class Stream {
   public:
    virtual ~Stream() = default;
    virtual void Read() = 0;
    virtual void Write() = 0;
    // Nothing will be written any more.
    virtual void HalfClose() = 0;
    // Reading has ended and no write is in flight: lets gRPC destroy the stream.
    virtual void Release() = 0;
    virtual void Refuse(const absl::Status& status) = 0;
    virtual void Cancel() = 0;
    // The peer's credentials. On the calling end: once something was read.
    virtual std::shared_ptr<const grpc::AuthContext> Shown() const = 0;

    int process = -1;      // the peer; on the listening end known after its hello
    bool greeted = false;  // its hello was accepted
    bool refused = false;  // whatever it says
    bool writing = false;
    bool half_closed = false;
    bool read_ended = false;
    bool released = false;
    bool paused = false;  // `in` waits for a listener
    pb::PeerFrame in;
    pb::PeerFrame out;
  };

  Impl(const PeerIdentity& self, const TlsIdentity& identity)
      : self_(self), identity_(identity), links_(self.processes) {}

  ~Impl() override {
    std::unique_lock<std::mutex> lock(mu_);
    closing_ = true;
    for (Stream* stream : streams_) {
      Resume(stream);  // first: only a read in flight keeps a finished stream alive
      if (!stream->greeted) stream->Cancel();
      MaybeHalfClose(stream);
    }
    const auto empty = [this] { return streams_.empty() && ending_ == 0; };
    if (!changed_.wait_for(lock, kFlushTime, empty)) {
      for (Stream* stream : streams_) stream->Cancel();
      changed_.wait(lock, empty);
    }
    lock.unlock();
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now());
      server_->Wait();
    }
  }

  absl::Status Listen(const std::string& host) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(absl::StrCat(host, ":0"), ServerCredentialsOf(identity_), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) return absl::UnavailableError(absl::StrCat("cannot listen on '", host, "'"));
    address_ = absl::StrCat(host, ":", port);
    return absl::OkStatus();
  }

  int process() const { return self_.process; }
  int num_processes() const { return self_.processes; }
  const std::string& address() const { return address_; }
  bool is_secret() const { return !identity_.empty(); }

  absl::Status Connect(const std::vector<std::string>& addresses, absl::Duration timeout);
  void SetListener(Listener* listener);
  void Send(int process, absl::Span<const Message> messages);
  void SendError(const absl::Status& status);
  absl::StatusOr<std::vector<pb::PeerPlan>> Exchange(const pb::PeerPlan& mine);
  absl::StatusOr<std::vector<std::string>> ExchangeNotes(const std::string& mine);
  absl::Status Barrier();
  absl::StatusOr<ClockReading> CompareClock(int process);
  void Interrupt(const absl::Status& status);

  grpc::ServerBidiReactor<pb::PeerFrame, pb::PeerFrame>* Connect(grpc::CallbackServerContext* context) override;

  // Reactions of the streams.
  void OnRead(Stream* stream, bool ok);
  void OnWrite(Stream* stream, bool ok);
  // Deletes the stream; `status` is how the call ended, on the calling end.
  void OnEnd(Stream* stream, const absl::Status& status);

 private:
  template <typename Reactor>
  class End;
  class ListeningEnd;
  class CallingEnd;

  // The state of a peer. The own entry is not used.
  struct Link {
    std::string address;
    Stream* stream = nullptr;  // while frames can be written
    bool up = false;           // greeted both ways, ever
    bool lost = false;
    bool told = false;   // the listener knows of `error` or of the peer's failure
    absl::Status error;  // why it is lost, or why it was never up
    std::deque<pb::PeerFrame> queue;
    PeerInbox inbox;
  };

  std::string Name(int process) const {
    const std::string& address = links_[process].address;
    return absl::StrCat("process ", process, address.empty() ? "" : absl::StrCat(" (", address, ")"));
  }

  bool IsOfCluster(const Stream& stream) const { return identity_.empty() || HasUri(*stream.Shown(), kClusterUri); }

  // All of these REQUIRE mu_.
  absl::Status Greet(Stream* stream);
  void Enqueue(Link& link, pb::PeerFrame frame);
  void StartWrite(Stream* stream, pb::PeerFrame frame);
  void MaybeWrite(Stream* stream);
  void MaybeHalfClose(Stream* stream);
  void MaybeRelease(Stream* stream);
  void EndReading(Stream* stream, const absl::Status& why);
  void Resume(Stream* stream);
  absl::StatusOr<std::vector<Message>> Take(Stream* stream);
  // The reason why nothing more can come from this peer; OK if it can.
  absl::Status WhyGone(int process) const;
  // Sends the frames, which contain `mine`, to all peers and returns theirs, by process.
  template <typename T>
  absl::StatusOr<std::vector<T>> ExchangeFrames(absl::Span<const pb::PeerFrame> frames, const T& mine,
                                                std::deque<T> PeerInbox::*arrived);
  // Waits until `arrived` holds for every peer, or returns why it never can.
  absl::Status Await(std::unique_lock<std::mutex>& lock, const std::function<bool(const PeerInbox&)>& arrived);

  // Without mu_. Tells the listener its news about this peer.
  void Tell(int process);
  void Dispatch(Stream* stream, const std::vector<Message>& messages);

  const PeerIdentity self_;
  const TlsIdentity identity_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  // Owned here and not by the streams, which end on gRPC's threads: the last channel must not be closed on a thread for
  // which its closing waits.
  std::vector<std::unique_ptr<pb::Peer::Stub>> stubs_;

  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<Link> links_;
  std::vector<Stream*> streams_;  // alive
  int ending_ = 0;                // being deleted
  bool closing_ = false;
  bool has_listener_ = false;
  int64_t barriers_ = 0;  // entered by this process
  absl::Status interrupted_;

  std::shared_mutex listener_mu_;  // held while the listener is called; taken before mu_ or alone
  Listener* listener_ = nullptr;
};

// gRPC's reactions, passed on to the network.
template <typename Reactor>
class PeerNetwork::Impl::End : public Reactor, public Stream {
 public:
  explicit End(Impl& net) : net_(net) {}
  void Read() override { this->StartRead(&in); }
  void Write() override { this->StartWrite(&out); }
  void OnReadDone(bool ok) override { net_.OnRead(this, ok); }
  void OnWriteDone(bool ok) override { net_.OnWrite(this, ok); }

 protected:
  Impl& net_;
};

class PeerNetwork::Impl::ListeningEnd : public End<grpc::ServerBidiReactor<pb::PeerFrame, pb::PeerFrame>> {
 public:
  ListeningEnd(Impl& net, grpc::CallbackServerContext* context) : End(net), context_(context) {}
  void HalfClose() override { FinishOnce(grpc::Status::OK); }
  void Release() override { FinishOnce(grpc::Status::OK); }
  void Refuse(const absl::Status& status) override { FinishOnce(ToGrpc(status)); }
  void Cancel() override { context_->TryCancel(); }
  std::shared_ptr<const grpc::AuthContext> Shown() const override { return context_->auth_context(); }
  void OnDone() override { net_.OnEnd(this, absl::OkStatus()); }

 private:
  void FinishOnce(const grpc::Status& status) {
    if (!std::exchange(finished_, true)) Finish(status);
  }

  grpc::CallbackServerContext* const context_;
  bool finished_ = false;
};

class PeerNetwork::Impl::CallingEnd : public End<grpc::ClientBidiReactor<pb::PeerFrame, pb::PeerFrame>> {
 public:
  CallingEnd(Impl& net, pb::Peer::Stub& stub) : End(net) {
    context_.set_wait_for_ready(true);  // the peer may not listen yet; Connect() has a time limit
    stub.async()->Connect(&context_, this);
    AddHold();  // writes are started outside of reactions; Release() ends that
  }
  void HalfClose() override { StartWritesDone(); }
  void Release() override { RemoveHold(); }
  void Refuse(const absl::Status&) override { context_.TryCancel(); }
  void Cancel() override { context_.TryCancel(); }
  std::shared_ptr<const grpc::AuthContext> Shown() const override { return context_.auth_context(); }
  void OnDone(const grpc::Status& status) override { net_.OnEnd(this, FromGrpc(status)); }

 private:
  grpc::ClientContext context_;
};

grpc::ServerBidiReactor<pb::PeerFrame, pb::PeerFrame>* PeerNetwork::Impl::Connect(
    grpc::CallbackServerContext* context) {
  auto* stream = new ListeningEnd(*this, context);
  std::lock_guard<std::mutex> lock(mu_);
  streams_.push_back(stream);
  if (closing_) stream->Refuse(absl::UnavailableError("the process is closing"));
  if (!IsOfCluster(*stream)) {
    LOG(WARNING) << "process " << self_.process << ": a peer's call from " << context->peer()
                 << " is refused: its certificate is of no part of the cluster";
    stream->refused = true;
    stream->Refuse(NotOfCluster());
  }
  stream->Read();
  return stream;
}

absl::Status PeerNetwork::Impl::Connect(const std::vector<std::string>& addresses, absl::Duration timeout) {
  if (static_cast<int>(addresses.size()) != self_.processes) {
    return absl::InvalidArgumentError(
        absl::StrCat(addresses.size(), " peer addresses for ", self_.processes, " processes"));
  }
  std::unique_lock<std::mutex> lock(mu_);
  for (int p = 0; p < self_.processes; ++p) links_[p].address = addresses[p];
  for (int p = 0; p < self_.process; ++p) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    stubs_.push_back(
        pb::Peer::NewStub(grpc::CreateCustomChannel(addresses[p], ChannelCredentialsOf(identity_), arguments)));
    auto* stream = new CallingEnd(*this, *stubs_.back());
    stream->process = p;
    streams_.push_back(stream);
    StartWrite(stream, HelloFrame(self_));
    stream->Read();
    stream->StartCall();
  }
  const auto missing = [&] {
    std::vector<std::string> names;
    for (int p = 0; p < self_.processes; ++p) {
      if (p != self_.process && !links_[p].up) names.push_back(Name(p));
    }
    return names;
  };
  absl::Status refused;
  const auto decided = [&] {
    for (int p = 0; p < self_.processes && refused.ok(); ++p) {
      if (p != self_.process && !links_[p].up && !links_[p].error.ok()) refused = Annotate(links_[p].error, Name(p));
    }
    return !refused.ok() || !interrupted_.ok() || missing().empty();
  };
  AwakeClock clock;
  bool in_time = false;
  do {
    in_time = changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(timeout, AwakeClock::kLook)), decided);
  } while (!in_time && clock.Look() < timeout);
  if (!refused.ok()) return refused;
  if (!interrupted_.ok()) return interrupted_;
  if (in_time) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("no connection within ", absl::FormatDuration(timeout), " with ", absl::StrJoin(missing(), ", ")));
}

absl::Status PeerNetwork::Impl::Greet(Stream* stream) {
  if (stream->refused || !IsOfCluster(*stream)) return NotOfCluster();
  const bool calling = stream->process >= 0;
  OF_RETURN_IF_ERROR(CheckHello(stream->in, self_, stream->process));
  const pb::PeerHello& hello = stream->in.hello();
  Link& link = links_[hello.process()];
  if (link.up) return absl::AlreadyExistsError(absl::StrCat("process ", hello.process(), " is connected already"));
  stream->process = hello.process();
  stream->greeted = true;
  link.stream = stream;
  link.up = true;
  // The answer goes before early messages.
  if (!calling) link.queue.push_front(HelloFrame(self_));
  MaybeWrite(stream);
  changed_.notify_all();
  return absl::OkStatus();
}

void PeerNetwork::Impl::StartWrite(Stream* stream, pb::PeerFrame frame) {
  stream->out = std::move(frame);
  stream->writing = true;
  stream->Write();
}

void PeerNetwork::Impl::MaybeWrite(Stream* stream) {
  if (!stream->greeted || stream->writing || stream->read_ended || stream->half_closed) return;
  Link& link = links_[stream->process];
  if (link.queue.empty()) return MaybeHalfClose(stream);
  pb::PeerFrame frame = std::move(link.queue.front());
  link.queue.pop_front();
  StartWrite(stream, std::move(frame));
}

void PeerNetwork::Impl::MaybeHalfClose(Stream* stream) {
  if (!closing_ || !stream->greeted || stream->writing || stream->half_closed || stream->released) return;
  if (!stream->read_ended && !links_[stream->process].queue.empty()) return;
  stream->half_closed = true;
  stream->HalfClose();
}

void PeerNetwork::Impl::MaybeRelease(Stream* stream) {
  if (!stream->read_ended || stream->writing || std::exchange(stream->released, true)) return;
  stream->Release();
}

void PeerNetwork::Impl::EndReading(Stream* stream, const absl::Status& why) {
  stream->read_ended = true;
  if (stream->greeted) {
    Link& link = links_[stream->process];
    link.lost = true;
    link.error = Annotate(why, Name(stream->process));
    link.stream = nullptr;
    link.queue.clear();
    changed_.notify_all();
  }
  MaybeRelease(stream);
}

absl::StatusOr<std::vector<Message>> PeerNetwork::Impl::Take(Stream* stream) {
  Link& link = links_[stream->process];
  OF_ASSIGN_OR_RETURN(PeerReaction reaction, TakeFrame(stream->in, link.inbox));
  if (reaction.answer.has_value()) Enqueue(link, *std::move(reaction.answer));
  changed_.notify_all();
  return std::move(reaction.messages);
}

void PeerNetwork::Impl::OnRead(Stream* stream, bool ok) {
  std::vector<Message> messages;
  int process;
  bool more = false;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!ok) {
      EndReading(stream, absl::UnavailableError("connection lost"));
    } else if (!stream->greeted) {
      const absl::Status status = Greet(stream);
      if (status.ok()) {
        stream->Read();
      } else {
        LOG(WARNING) << "a peer's connection is refused: " << status.message();
        if (stream->process >= 0) links_[stream->process].error = status;
        stream->Refuse(status);
        EndReading(stream, status);
        changed_.notify_all();
      }
      return;
    } else if (absl::StatusOr<std::vector<Message>> taken = Take(stream); !taken.ok()) {
      EndReading(stream, taken.status());
      stream->Cancel();
    } else if (!taken->empty() && !has_listener_ && !closing_) {
      stream->paused = true;  // SetListener() takes it up again
      return;
    } else {
      messages = *std::move(taken);
      more = true;
    }
    process = stream->process;
  }
  // `stream` may be gone from here on, unless there is more to read.
  if (process >= 0) Tell(process);
  if (more) Dispatch(stream, messages);
}

void PeerNetwork::Impl::Dispatch(Stream* stream, const std::vector<Message>& messages) {
  if (!messages.empty()) {
    std::shared_lock<std::shared_mutex> lock(listener_mu_);
    if (listener_ != nullptr) listener_->OnMessages(stream->process, messages);
  }
  stream->Read();
}

void PeerNetwork::Impl::Tell(int process) {
  std::shared_lock<std::shared_mutex> listener_lock(listener_mu_);
  if (listener_ == nullptr) return;
  absl::Status error, failure;
  {
    std::lock_guard<std::mutex> lock(mu_);
    Link& link = links_[process];
    if (closing_ || link.told || (!link.lost && link.inbox.failure.ok())) return;
    link.told = true;
    error = link.error;
    failure = link.inbox.failure;
  }
  if (!failure.ok()) return listener_->OnPeerError(process, failure);
  listener_->OnPeerLost(process, error);
}

void PeerNetwork::Impl::OnWrite(Stream* stream, bool ok) {
  std::lock_guard<std::mutex> lock(mu_);
  stream->writing = false;
  if (ok) MaybeWrite(stream);  // otherwise the read will fail too
  MaybeHalfClose(stream);
  MaybeRelease(stream);
}

void PeerNetwork::Impl::OnEnd(Stream* stream, const absl::Status& status) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    streams_.erase(std::find(streams_.begin(), streams_.end(), stream));
    ++ending_;
    if (stream->process >= 0) {
      Link& link = links_[stream->process];
      if (link.stream == stream) link.stream = nullptr;
      if (!link.up && link.error.ok()) link.error = status.ok() ? absl::UnavailableError("connection lost") : status;
    }
  }
  delete stream;
  std::lock_guard<std::mutex> lock(mu_);
  --ending_;
  changed_.notify_all();
}

void PeerNetwork::Impl::Resume(Stream* stream) {
  if (std::exchange(stream->paused, false)) stream->Read();
}

void PeerNetwork::Impl::SetListener(Listener* listener) {
  if (listener == nullptr) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      has_listener_ = false;
    }
    std::unique_lock<std::shared_mutex> lock(listener_mu_);
    listener_ = nullptr;
    return;
  }
  std::vector<Stream*> paused;
  {
    std::unique_lock<std::shared_mutex> listener_lock(listener_mu_);
    listener_ = listener;
    std::lock_guard<std::mutex> lock(mu_);
    has_listener_ = true;
    for (Stream* stream : streams_) {
      if (std::exchange(stream->paused, false)) paused.push_back(stream);
    }
  }
  // A paused stream cannot go away: it has no read in flight that could end.
  for (Stream* stream : paused) {
    const absl::StatusOr<std::vector<Message>> messages = Unpack(stream->in.messages().packed());
    Dispatch(stream, *messages);
  }
  for (int p = 0; p < self_.processes; ++p) Tell(p);
}

void PeerNetwork::Impl::Enqueue(Link& link, pb::PeerFrame frame) {
  if (link.lost) return;
  link.queue.push_back(std::move(frame));
  if (link.stream != nullptr) MaybeWrite(link.stream);
}

void PeerNetwork::Impl::Send(int process, absl::Span<const Message> messages) {
  const char* bytes = reinterpret_cast<const char*>(messages.data());
  const size_t size = messages.size() * sizeof(Message);
  std::lock_guard<std::mutex> lock(mu_);
  Link& link = links_[process];
  // The last frame of the queue is not in flight: it can take more.
  if (!link.queue.empty() && link.queue.back().kind_case() == pb::PeerFrame::kMessages &&
      link.queue.back().messages().packed().size() + size <= kMaxBatchBytes) {
    link.queue.back().mutable_messages()->mutable_packed()->append(bytes, size);
    return;
  }
  pb::PeerFrame frame;
  frame.mutable_messages()->set_packed(bytes, size);
  Enqueue(link, std::move(frame));
}

void PeerNetwork::Impl::SendError(const absl::Status& status) {
  const pb::PeerFrame frame = ErrorFrame(status);
  std::lock_guard<std::mutex> lock(mu_);
  for (int p = 0; p < self_.processes; ++p) {
    if (p != self_.process) Enqueue(links_[p], frame);
  }
}

absl::Status PeerNetwork::Impl::WhyGone(int process) const {
  const Link& link = links_[process];
  if (!link.inbox.failure.ok()) {
    return absl::AbortedError(absl::StrCat(Name(process), " failed first: ", link.inbox.failure.message()));
  }
  return link.lost ? link.error : absl::OkStatus();
}

absl::Status PeerNetwork::Impl::Await(std::unique_lock<std::mutex>& lock,
                                      const std::function<bool(const PeerInbox&)>& arrived) {
  absl::Status status;
  changed_.wait(lock, [&] {
    bool all = true;
    for (int p = 0; p < self_.processes; ++p) {
      const Link& link = links_[p];
      if (p == self_.process || arrived(link.inbox)) continue;
      all = false;
      if (status.ok()) status = WhyGone(p);
    }
    if (all)
      status = absl::OkStatus();
    else if (status.ok())
      status = interrupted_;
    return all || !status.ok();
  });
  return status;
}

absl::Status PeerNetwork::Impl::Barrier() {
  std::unique_lock<std::mutex> lock(mu_);
  const int64_t sequence = ++barriers_;
  pb::PeerFrame frame;
  frame.mutable_barrier()->set_sequence(sequence);
  for (int p = 0; p < self_.processes; ++p) {
    if (p != self_.process) Enqueue(links_[p], frame);
  }
  return Await(lock, [sequence](const PeerInbox& inbox) { return inbox.barrier >= sequence; });
}

template <typename T>
absl::StatusOr<std::vector<T>> PeerNetwork::Impl::ExchangeFrames(absl::Span<const pb::PeerFrame> frames, const T& mine,
                                                                 std::deque<T> PeerInbox::*arrived) {
  std::unique_lock<std::mutex> lock(mu_);
  for (int p = 0; p < self_.processes; ++p) {
    if (p == self_.process) continue;
    for (const pb::PeerFrame& frame : frames) Enqueue(links_[p], frame);
  }
  OF_RETURN_IF_ERROR(Await(lock, [arrived](const PeerInbox& inbox) { return !(inbox.*arrived).empty(); }));
  std::vector<T> all(self_.processes);
  all[self_.process] = mine;
  for (int p = 0; p < self_.processes; ++p) {
    if (p == self_.process) continue;
    std::deque<T>& theirs = links_[p].inbox.*arrived;
    all[p] = std::move(theirs.front());
    theirs.pop_front();
  }
  return all;
}

absl::StatusOr<std::vector<pb::PeerPlan>> PeerNetwork::Impl::Exchange(const pb::PeerPlan& mine) {
  pb::PeerFrame frame;
  *frame.mutable_plan() = mine;
  return ExchangeFrames(absl::MakeConstSpan(&frame, 1), mine, &PeerInbox::plans);
}

absl::StatusOr<std::vector<std::string>> PeerNetwork::Impl::ExchangeNotes(const std::string& mine) {
  OF_ASSIGN_OR_RETURN(const std::vector<pb::PeerFrame> frames, NoteFrames(mine));
  return ExchangeFrames(absl::MakeConstSpan(frames), mine, &PeerInbox::notes);
}

absl::StatusOr<ClockReading> PeerNetwork::Impl::CompareClock(int process) {
  std::unique_lock<std::mutex> lock(mu_);
  Link& link = links_[process];
  ClockReading best{.error_ns = INT64_MAX};
  for (int i = 0; i < kClockQuestions; ++i) {
    link.inbox.clock.reset();
    Enqueue(link, ClockQuestion());
    absl::Status gone;
    changed_.wait(lock, [&] {
      gone = interrupted_.ok() ? WhyGone(process) : interrupted_;
      return link.inbox.clock.has_value() || !gone.ok();
    });
    if (!link.inbox.clock.has_value()) return gone;
    if (link.inbox.clock->error_ns < best.error_ns) best = *link.inbox.clock;
  }
  return best;
}

void PeerNetwork::Impl::Interrupt(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu_);
  if (interrupted_.ok()) interrupted_ = status;
  changed_.notify_all();
}

PeerNetwork::PeerNetwork(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PeerNetwork::~PeerNetwork() = default;

absl::StatusOr<std::unique_ptr<PeerNetwork>> PeerNetwork::Create(int process, int num_processes, uint64_t attempt,
                                                                 const std::string& host, const TlsIdentity& identity,
                                                                 uint64_t run) {
  const PeerIdentity self = {.process = process, .processes = num_processes, .attempt = attempt, .run = run};
  auto impl = std::make_unique<Impl>(self, identity);
  OF_RETURN_IF_ERROR(impl->Listen(host));
  return std::unique_ptr<PeerNetwork>(new PeerNetwork(std::move(impl)));
}

int PeerNetwork::process() const { return impl_->process(); }
int PeerNetwork::num_processes() const { return impl_->num_processes(); }
bool PeerNetwork::is_secret() const { return impl_->is_secret(); }
const std::string& PeerNetwork::address() const { return impl_->address(); }
absl::Status PeerNetwork::Connect(const std::vector<std::string>& addresses, absl::Duration timeout) {
  return impl_->Connect(addresses, timeout);
}
void PeerNetwork::SetListener(Listener* listener) { impl_->SetListener(listener); }
void PeerNetwork::Send(int process, absl::Span<const Message> messages) { impl_->Send(process, messages); }
void PeerNetwork::SendError(const absl::Status& status) { impl_->SendError(status); }
absl::StatusOr<std::vector<pb::PeerPlan>> PeerNetwork::Exchange(const pb::PeerPlan& mine) {
  return impl_->Exchange(mine);
}
absl::StatusOr<std::vector<std::string>> PeerNetwork::ExchangeNotes(const std::string& mine) {
  return impl_->ExchangeNotes(mine);
}
absl::Status PeerNetwork::Barrier() { return impl_->Barrier(); }
absl::StatusOr<ClockReading> PeerNetwork::CompareClock(int process) { return impl_->CompareClock(process); }
void PeerNetwork::Interrupt(const absl::Status& status) { impl_->Interrupt(status); }

}  // namespace oneflow
