#include "actor/transport/grpc_peer_network.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "actor/awake_clock.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

// How long a closing process tries to send its last frames (an error, a barrier).
constexpr std::chrono::seconds kFlushTime(2);

absl::Status NotOfCluster() { return absl::PermissionDeniedError("its certificate is of no part of the cluster"); }

}  // namespace

GrpcPeerNetwork::~GrpcPeerNetwork() {
  std::unique_lock<std::mutex> lock(mu_);
  closing_ = true;
  for (PeerStream* stream : streams_) Step(*stream, Event::kClose);
  const auto empty = [this] { return streams_.empty() && ending_ == 0; };
  if (!changed_.wait_for(lock, kFlushTime, empty)) {
    for (PeerStream* stream : streams_) stream->Cancel();
    changed_.wait(lock, empty);
  }
  lock.unlock();
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
}

absl::Status GrpcPeerNetwork::Listen(const std::string& host) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(absl::StrCat(host, ":0"), ServerCredentialsOf(identity_), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) return absl::UnavailableError(absl::StrCat("cannot listen on '", host, "'"));
  address_ = absl::StrCat(host, ":", port);
  return absl::OkStatus();
}

grpc::ServerBidiReactor<pb::PeerFrame, pb::PeerFrame>* GrpcPeerNetwork::Connect(grpc::CallbackServerContext* context) {
  auto* stream = new ListeningEnd(*this, context);
  std::lock_guard<std::mutex> lock(mu_);
  streams_.push_back(stream);
  if (closing_) {
    Step(*stream, Event::kRefuse, absl::UnavailableError("the process is closing"));
  } else if (!IsOfCluster(*stream)) {
    LOG(WARNING) << "process " << self_.process << ": a peer's call from " << context->peer()
                 << " is refused: its certificate is of no part of the cluster";
    Step(*stream, Event::kRefuse, NotOfCluster());
  } else {
    Step(*stream, Event::kAccept);
  }
  return stream;
}

absl::Status GrpcPeerNetwork::Connect(const std::vector<std::string>& addresses, absl::Duration timeout) {
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
    Step(*stream, Event::kCall);
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

void GrpcPeerNetwork::Step(PeerStream& stream, Event event, const absl::Status& why) {
  const bool has_frames = stream.process >= 0 && !links_[stream.process].queue.empty();
  const std::optional<StreamState::Actions> actions = stream.state.On(event, has_frames);
  if (!actions.has_value()) {
    LOG(ERROR) << "process " << self_.process << ": event " << static_cast<int>(event) << " of the stream with process "
               << stream.process << " cannot happen now";
    return;
  }
  if (actions->read) stream.Read();
  if (actions->write) {
    stream.out = NextFrame(stream);
    stream.Write();
  }
  if (actions->refuse) stream.Refuse(why);
  if (actions->half_close) stream.HalfClose();
  if (actions->release) stream.Release();
  if (actions->cancel) stream.Cancel();
}

pb::PeerFrame GrpcPeerNetwork::NextFrame(const PeerStream& stream) {
  if (!stream.state.is_greeted()) return HelloFrame(self_);
  std::deque<pb::PeerFrame>& queue = links_[stream.process].queue;
  pb::PeerFrame frame = std::move(queue.front());
  queue.pop_front();
  return frame;
}

absl::Status GrpcPeerNetwork::CheckGreeting(const PeerStream& stream) const {
  if (stream.state.is_refused() || !IsOfCluster(stream)) return NotOfCluster();
  OF_RETURN_IF_ERROR(CheckHello(stream.in, self_, stream.process));
  const int process = stream.in.hello().process();
  if (!links_[process].up) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("process ", process, " is connected already"));
}

void GrpcPeerNetwork::Greet(PeerStream& stream) {
  if (const absl::Status status = CheckGreeting(stream); !status.ok()) {
    LOG(WARNING) << "a peer's connection is refused: " << status.message();
    if (stream.process >= 0) links_[stream.process].error = status;
    return Lose(stream, Event::kRejected, status);
  }
  const bool calling = stream.process >= 0;
  stream.process = stream.in.hello().process();
  Link& link = links_[stream.process];
  link.stream = &stream;
  link.up = true;
  // The answer goes before early messages.
  if (!calling) link.queue.push_front(HelloFrame(self_));
  Step(stream, Event::kGreeted);
  changed_.notify_all();
}

void GrpcPeerNetwork::Lose(PeerStream& stream, Event event, const absl::Status& why) {
  if (stream.state.is_greeted()) {
    Link& link = links_[stream.process];
    link.lost = true;
    link.error = Annotate(why, Name(stream.process));
    link.stream = nullptr;
    link.queue.clear();
  }
  Step(stream, event, why);
  changed_.notify_all();
}

absl::StatusOr<std::vector<Message>> GrpcPeerNetwork::Take(PeerStream& stream) {
  Link& link = links_[stream.process];
  OF_ASSIGN_OR_RETURN(PeerReaction reaction, TakeFrame(stream.in, link.inbox));
  if (reaction.answer.has_value()) Enqueue(link, *std::move(reaction.answer));
  changed_.notify_all();
  return std::move(reaction.messages);
}

void GrpcPeerNetwork::OnRead(PeerStream* stream, bool ok) {
  std::vector<Message> messages;
  int process;
  bool more = false;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!ok) {
      Lose(*stream, Event::kReadFailed, absl::UnavailableError("connection lost"));
    } else if (!stream->state.is_greeted()) {
      return Greet(*stream);
    } else if (absl::StatusOr<std::vector<Message>> taken = Take(*stream); !taken.ok()) {
      Lose(*stream, Event::kNonsense, taken.status());
    } else if (!taken->empty() && !has_listener_ && !closing_) {
      return Step(*stream, Event::kHeldFrame);  // SetListener() takes it up again
    } else {
      Step(*stream, Event::kFrame);
      messages = *std::move(taken);
      more = true;
    }
    process = stream->process;
  }
  // `stream` may be gone from here on, unless its frame is being taken.
  if (process >= 0) Tell(process);
  if (more) Dispatch(*stream, messages);
}

void GrpcPeerNetwork::Dispatch(PeerStream& stream, const std::vector<Message>& messages) {
  if (!messages.empty()) {
    std::shared_lock<std::shared_mutex> lock(listener_mu_);
    if (listener_ != nullptr) listener_->OnMessages(stream.process, messages);
  }
  std::lock_guard<std::mutex> lock(mu_);
  Step(stream, Event::kTaken);
}

void GrpcPeerNetwork::Tell(int process) {
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

void GrpcPeerNetwork::OnWrite(PeerStream* stream, bool ok) {
  std::lock_guard<std::mutex> lock(mu_);
  Step(*stream, ok ? Event::kWritten : Event::kWriteFailed);
}

void GrpcPeerNetwork::OnEnd(PeerStream* stream, const absl::Status& status) {
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

void GrpcPeerNetwork::SetListener(Listener* listener) {
  if (listener == nullptr) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      has_listener_ = false;
    }
    std::unique_lock<std::shared_mutex> lock(listener_mu_);
    listener_ = nullptr;
    return;
  }
  std::vector<PeerStream*> held;
  {
    std::unique_lock<std::shared_mutex> listener_lock(listener_mu_);
    listener_ = listener;
    std::lock_guard<std::mutex> lock(mu_);
    has_listener_ = true;
    for (PeerStream* stream : streams_) {
      if (!stream->state.holds_frame()) continue;
      Step(*stream, Event::kResume);
      held.push_back(stream);
    }
  }
  // A stream whose frame is being taken cannot go away.
  for (PeerStream* stream : held) {
    const absl::StatusOr<std::vector<Message>> messages = Unpack(stream->in.messages().packed());
    Dispatch(*stream, *messages);
  }
  for (int p = 0; p < self_.processes; ++p) Tell(p);
}

void GrpcPeerNetwork::Enqueue(Link& link, pb::PeerFrame frame) {
  if (link.lost) return;
  link.queue.push_back(std::move(frame));
  if (link.stream != nullptr) Step(*link.stream, Event::kQueued);
}

void GrpcPeerNetwork::Send(int process, absl::Span<const Message> messages) {
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

void GrpcPeerNetwork::SendError(const absl::Status& status) {
  const pb::PeerFrame frame = ErrorFrame(status);
  std::lock_guard<std::mutex> lock(mu_);
  for (int p = 0; p < self_.processes; ++p) {
    if (p != self_.process) Enqueue(links_[p], frame);
  }
}

absl::StatusOr<std::unique_ptr<PeerNetwork>> PeerNetwork::Create(int process, int num_processes, uint64_t attempt,
                                                                 const std::string& host, const TlsIdentity& identity,
                                                                 uint64_t run) {
  const PeerIdentity self = {.process = process, .processes = num_processes, .attempt = attempt, .run = run};
  auto network = std::make_unique<GrpcPeerNetwork>(self, identity);
  OF_RETURN_IF_ERROR(network->Listen(host));
  return network;
}

}  // namespace oneflow
