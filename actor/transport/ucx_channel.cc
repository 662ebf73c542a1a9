// A data channel over UCX: TCP, or what faster cards offer where UCX_TLS and UCX_NET_DEVICES name them.
//
//   process 0, host 0                                                       process 1, host 1
//   actor threads ──► Send() ──► queue ──► thread ══ UCX ══► thread ──► Receiver ──► memory, mailboxes
//
// One thread moves everything and sleeps when idle. Before it sleeps it spins for a while if the process has a core to
// spare; without one, it looks four times in a millisecond while payloads move. Data in few runs is sent without a copy
// on the way to the network. Payloads go in pieces, with messages between them.
//
// UCX reads the bytes of a frame before we know whose they are, and trusts them: its ports are not for strangers
// (tools/control/security/README.md).
#include "actor/transport/ucx_channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/transport/channel_frame.h"
#include "actor/transport/peer_seals.h"
#include "actor/transport/ucx_worker.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kActiveMessage = 1;
// How long the thread spins before it sleeps, as an actor thread does.
constexpr std::chrono::microseconds kPollTime(20);
// While payloads move, data comes all the time, and without a free core each wake-up takes a core from compute: data
// that comes within this time is taken at once.
constexpr std::chrono::microseconds kPause(250);
// The peer's own error comes over the control network, and is more specific than the loss of the peer.
constexpr std::chrono::milliseconds kWordTime(500);
constexpr std::chrono::seconds kCloseTime(2);
constexpr size_t kMostMessages = 512;  // in one frame, at most the size of a piece
constexpr int kLogEvery = 5;           // seconds between logs of dropped data: anyone can send it
// The library has this many pieces of payloads at a time for each peer; messages go between them. The receiver requests
// no piece: there is room, and on a busy link an answer takes long.
constexpr int kMostPieces = 4;
constexpr size_t kLeastAddress = 16;  // of UCX: no card's is shorter
// Frames up to this size are given to the library by the sending thread, if nobody else is using it: that saves waking
// the channel's thread.
constexpr int64_t kSmallBytes = 32 << 10;

class UcxChannel final : public DataChannel {
 public:
  explicit UcxChannel(const Options& options)
      : options_(options),
        seals_(options.process, options.num_processes),
        endpoints_(options.num_processes, nullptr),
        stamps_(options.num_processes, 0),
        is_lost_(options.num_processes, false),
        payloads_(options.num_processes),
        pieces_(options.num_processes, 0) {}
  ~UcxChannel() override;
  // The second step of making one.
  absl::Status Open();

  const pb::PeerData& announcement() const override { return announcement_; }
  absl::Status Connect(int process, const pb::PeerData& peer) override;
  void Start(Receiver& receiver) override;
  void SendMessages(int process, absl::Span<const Message> messages) override;
  void SendShipment(int process, Use use, const Message& message, const Shipment& shipment, int32_t slot) override;
  int64_t bytes_sent() const override { return bytes_sent_.load(std::memory_order_relaxed); }

 private:
  // Waiting to be sent: messages or a payload.
  struct Outgoing {
    int process = 0;
    ChannelHeader header;
    std::string messages;
    std::optional<OutgoingPayload> payload;
    int pieces = 0;         // that UCX has
    bool is_taken = false;  // UCX has, or has had, all of it
  };

  struct Peer {
    UcxChannel* channel;
    int process;
  };
  // Data in UCX, until it is sent.
  struct Piece {
    UcxChannel* channel = nullptr;
    Outgoing* of = nullptr;
    ChannelHeader header;
    std::vector<ucp_dt_iov_t> runs;
    std::unique_ptr<char[]> sealed;  // their memory then
  };
  struct Loss {
    Clock::time_point tell_at;
    int process;
    absl::Status status;
  };

  void Post(std::unique_ptr<Outgoing> outgoing);
  void Loop();
  // Returns when there may be work.
  void Await();
  void Sleep(int events, std::chrono::nanoseconds limit);
  // Incomplete payloads in either direction.
  bool IsMovingPayloads() const;
  bool HasWork() const { return has_queued_ || quit_; }
  void SendQueued();
  void SendOne(std::unique_ptr<Outgoing> outgoing);
  void SendPieces(int process);
  void SendPiece(Outgoing& of, std::vector<ucp_dt_iov_t> runs, int64_t offset);
  absl::Status Seal(Piece& piece);
  void EndPiece(Piece* piece);
  void Lose(int process, absl::Status status);
  void TellLost();
  bool IsSending() const;
  void Progress();
  void Close();

  static ucs_status_t OnActiveMessage(void* arg, const void* header, size_t header_length, void* data, size_t length,
                                      const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* data);
  static void OnBroken(void* arg, ucp_ep_h endpoint, ucs_status_t status);

  const Options options_;
  uint64_t stamp_ = 0;  // known to peers
  pb::PeerData announcement_;
  PeerSeals seals_;  // once started, guarded by worker_mu_
  std::unique_ptr<UcxWorker> worker_;
  int wake_ = -1;                    // an event: the queue has something, or the thread is to end
  std::vector<ucp_ep_h> endpoints_;  // by process
  std::vector<uint64_t> stamps_;     // by process
  std::deque<Peer> peers_;           // arguments of callbacks
  Receiver* receiver_ = nullptr;

  std::mutex worker_mu_;       // guards the members up to taken_, and all calls of UCX after Start()
  std::vector<bool> is_lost_;  // by process
  std::vector<Loss> losses_;   // to be told
  std::vector<std::deque<std::unique_ptr<Outgoing>>> payloads_;  // by process: not all taken yet
  std::vector<int> pieces_;                                      // by process: of payloads, that UCX has
  int64_t sending_ = 0;                                          // pieces of anything, that UCX has
  ArrivingFrames arriving_;
  std::vector<std::unique_ptr<Outgoing>> taken_;
  std::vector<std::unique_ptr<char[]>> spare_;  // for what is sealed: as many as were ever on their way

  std::mutex mu_;
  std::vector<std::unique_ptr<Outgoing>> queue_;  // guarded by mu_
  std::atomic<bool> has_queued_{false}, asleep_{false}, quit_{false};
  std::atomic<int64_t> bytes_sent_{0};
  std::thread thread_;
};

absl::Status UcxChannel::Open() {
  OF_ASSIGN_OR_RETURN(
      worker_,
      UcxWorker::Open({.host = options_.host, .message = kActiveMessage, .on_message = OnActiveMessage, .of = this}));
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0 || getrandom(&stamp_, sizeof(stamp_), 0) != sizeof(stamp_)) {
    return absl::ResourceExhaustedError(absl::StrCat("no events or random bytes: ", strerror(errno)));
  }
  OF_ASSIGN_OR_RETURN(*announcement_.mutable_address(), worker_->Address());
  announcement_.set_channel(options_.kind);
  announcement_.set_stamp(stamp_);
  if (options_.is_secret) OF_RETURN_IF_ERROR(seals_.Begin());
  announcement_.set_key(seals_.key());
  return absl::OkStatus();
}

absl::Status UcxChannel::Connect(int process, const pb::PeerData& peer) {
  if (peer.address().size() < kLeastAddress) {
    return absl::InvalidArgumentError(absl::StrCat("process ", process, " announces an address for data of ",
                                                   peer.address().size(), " bytes, which is none"));
  }
  OF_RETURN_IF_ERROR(seals_.Connect(process, peer.key()));
  peers_.push_back({this, process});
  stamps_[process] = peer.stamp();
  OF_ASSIGN_OR_RETURN(endpoints_[process],
                      worker_->Connect(absl::StrCat("process ", process), peer.address(), OnBroken, &peers_.back()));
  return absl::OkStatus();
}

void UcxChannel::Start(Receiver& receiver) {
  receiver_ = &receiver;
  thread_ = std::thread([this] { Loop(); });
}

UcxChannel::~UcxChannel() {
  if (thread_.joinable()) {
    quit_ = true;
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof(one));
    thread_.join();
  }
  if (worker_ != nullptr) Close();
  worker_ = nullptr;
  if (wake_ >= 0) close(wake_);
}

void UcxChannel::Post(std::unique_ptr<Outgoing> outgoing) {
  const bool is_small = !outgoing->payload.has_value() || outgoing->payload->num_bytes() <= kSmallBytes;
  {
    std::lock_guard<std::mutex> lock(mu_);
    queue_.push_back(std::move(outgoing));
  }
  has_queued_ = true;
  if (is_small && worker_mu_.try_lock()) {
    SendQueued();
    const bool is_left = IsSending();
    worker_mu_.unlock();
    if (is_left) has_queued_ = true;  // the thread goes on with it, also if it is about to fall asleep
    if (!has_queued_) return;
  }
  if (!asleep_) return;
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
}

void UcxChannel::Loop() {
  while (!quit_) {
    {
      std::lock_guard<std::mutex> lock(worker_mu_);
      SendQueued();
      while (worker_->Progress()) SendQueued();
      TellLost();
    }
    if (!quit_) Await();
  }
}

void UcxChannel::Await() {
  if (options_.cores != nullptr && options_.cores->TryTakeOne()) {
    bool found = false;
    const auto end = Clock::now() + kPollTime;
    while (!found && !options_.cores->exceeded() && Clock::now() < end) {
      std::lock_guard<std::mutex> lock(worker_mu_);
      found = worker_->Progress() || HasWork();
    }
    options_.cores->GiveBack(1);
    if (found) return;
  }
  std::unique_lock<std::mutex> lock(worker_mu_);
  const bool is_moving = IsMovingPayloads();
  if (!is_moving && !worker_->Arm()) return;  // something has come
  const bool soon = !losses_.empty();         // to be told
  lock.unlock();
  if (is_moving) return Sleep(/*events=*/1, kPause);
  Sleep(/*events=*/2, soon ? std::chrono::milliseconds(50) : std::chrono::milliseconds(1000));
}

// Until there is something to send or, with two events, something has come.
void UcxChannel::Sleep(int events, std::chrono::nanoseconds limit) {
  asleep_ = true;
  if (!HasWork()) {
    pollfd of[2] = {{wake_, POLLIN, 0}, {worker_->fd(), POLLIN, 0}};
    const timespec until = {limit / std::chrono::seconds(1), (limit % std::chrono::seconds(1)).count()};
    ppoll(of, events, &until, nullptr);
    uint64_t count = 0;
    if (of[0].revents != 0) (void)!read(wake_, &count, sizeof(count));
  }
  asleep_ = false;
}

void UcxChannel::SendQueued() {
  if (!has_queued_.exchange(false)) return;
  {
    std::lock_guard<std::mutex> lock(mu_);
    taken_.swap(queue_);
  }
  for (std::unique_ptr<Outgoing>& outgoing : taken_) SendOne(std::move(outgoing));
  taken_.clear();
}

void UcxChannel::SendOne(std::unique_ptr<Outgoing> outgoing) {
  const int process = outgoing->process;
  if (is_lost_[process] || endpoints_[process] == nullptr) return;
  outgoing->header.stamp = stamps_[process];
  outgoing->header.process = options_.process;
  if (outgoing->payload.has_value()) {
    bytes_sent_.fetch_add(outgoing->payload->num_bytes(), std::memory_order_relaxed);
    payloads_[process].push_back(std::move(outgoing));
    return SendPieces(process);
  }
  Outgoing& messages = *outgoing.release();  // EndPiece ends it
  messages.is_taken = true;
  SendPiece(messages, {{messages.messages.data(), messages.messages.size()}}, 0);
}

void UcxChannel::SendPieces(int process) {
  std::deque<std::unique_ptr<Outgoing>>& payloads = payloads_[process];
  while (!payloads.empty() && pieces_[process] < kMostPieces) {
    Outgoing& payload = *payloads.front();
    const OutgoingPayload::Piece piece = payload.payload->Next(kPayloadPieceBytes);
    std::vector<ucp_dt_iov_t> runs;
    for (const Shipment::Run run : piece.runs) runs.push_back({const_cast<char*>(run.data()), run.size()});
    payload.is_taken = piece.is_last;
    if (piece.is_last) {
      (void)payloads.front().release();  // EndPiece ends it
      payloads.pop_front();
    }
    SendPiece(payload, std::move(runs), piece.offset);
  }
}

void UcxChannel::SendPiece(Outgoing& of, std::vector<ucp_dt_iov_t> runs, int64_t offset) {
  auto* const piece = new Piece{this, &of, of.header, std::move(runs)};  // EndPiece ends it
  piece->header.offset = offset;
  ++of.pieces, ++sending_;
  if (of.payload.has_value()) ++pieces_[of.process];
  const int process = of.process;
  if (const absl::Status sealed = Seal(*piece); !sealed.ok()) {
    Lose(process, sealed);
    return EndPiece(piece);
  }
  const std::vector<ucp_dt_iov_t>& list = piece->runs;
  const bool is_list = list.size() > 1;
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
  param.cb.send = OnSent;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.datatype = is_list ? ucp_dt_make_iov() : ucp_dt_make_contig(1);
  param.user_data = piece;
  const void* const data = is_list ? list.data() : list.empty() ? nullptr : list[0].buffer;
  const size_t count = is_list ? list.size() : list.empty() ? 0 : list[0].length;
  void* const request =
      ucp_am_send_nbx(endpoints_[process], kActiveMessage, &piece->header, sizeof(ChannelHeader), data, count, &param);
  if (UCS_PTR_IS_ERR(request)) Lose(process, UcxError("sending", UCS_PTR_STATUS(request)));
  if (request == nullptr || UCS_PTR_IS_ERR(request)) EndPiece(piece);  // else OnSent does
}

absl::Status UcxChannel::Seal(Piece& piece) {
  Sealer* const sealer = seals_.To(piece.of->process);
  if (sealer == nullptr) return absl::OkStatus();
  std::vector<absl::string_view> runs;
  for (const ucp_dt_iov_t& run : piece.runs) runs.emplace_back(static_cast<const char*>(run.buffer), run.length);
  piece.header.number = sealer->next_number();
  if (spare_.empty()) {
    piece.sealed.reset(new char[kPayloadPieceBytes + kSealTagBytes]);
  } else {
    piece.sealed = std::move(spare_.back());
    spare_.pop_back();
  }
  size_t size = kSealTagBytes;
  for (const absl::string_view run : runs) size += run.size();
  OF_RETURN_IF_ERROR(sealer->Seal(BytesOf(piece.header), runs, piece.sealed.get()));
  piece.runs = {{piece.sealed.get(), size}};
  return absl::OkStatus();
}

void UcxChannel::OnSent(void* request, ucs_status_t, void* data) {  // errors come to OnBroken as well
  auto* const piece = static_cast<Piece*>(data);
  UcxChannel& channel = *piece->channel;
  const int process = piece->of->process;
  ucp_request_free(request);
  channel.EndPiece(piece);
  channel.SendPieces(process);
}

void UcxChannel::EndPiece(Piece* piece) {
  Outgoing* const of = piece->of;
  --sending_;
  if (of->payload.has_value()) --pieces_[of->process];
  if (--of->pieces == 0 && of->is_taken) delete of;
  if (piece->sealed != nullptr) spare_.push_back(std::move(piece->sealed));
  delete piece;
}

void UcxChannel::OnBroken(void* arg, ucp_ep_h, ucs_status_t status) {
  const Peer& peer = *static_cast<Peer*>(arg);
  peer.channel->Lose(peer.process, UcxError("the connection broke", status));
}

void UcxChannel::Lose(int process, absl::Status status) {
  if (is_lost_[process]) return;
  is_lost_[process] = true;
  for (std::unique_ptr<Outgoing>& payload : payloads_[process]) {
    payload->is_taken = true;
    if (payload->pieces > 0) (void)payload.release();  // EndPiece ends it
  }
  payloads_[process].clear();
  const auto wait = absl::IsInvalidArgument(status) ? std::chrono::milliseconds(0) : kWordTime;
  losses_.push_back({Clock::now() + wait, process, Annotate(status, absl::StrCat("data of process ", process))});
}

void UcxChannel::TellLost() {
  const auto now = Clock::now();
  const auto is_due = [now](const Loss& loss) { return loss.tell_at <= now; };
  for (const Loss& loss : losses_) {
    if (is_due(loss)) receiver_->OnChannelLost(loss.process, loss.status);
  }
  losses_.erase(std::remove_if(losses_.begin(), losses_.end(), is_due), losses_.end());
}

ucs_status_t UcxChannel::OnActiveMessage(void* arg, const void* header, size_t header_length, void* data, size_t length,
                                         const ucp_am_recv_param_t* param) {
  UcxChannel& channel = *static_cast<UcxChannel*>(arg);
  ChannelHeader known;
  if (header_length != sizeof(known) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  std::memcpy(&known, header, sizeof(known));
  const bool was_introduced =
      known.stamp == channel.stamp_ && known.process >= 0 && known.process < channel.options_.num_processes;
  if (!was_introduced) return UCS_OK;
  const absl::StatusOr<absl::string_view> text =
      channel.seals_.Open(known.process, known.number, BytesOf(known), {static_cast<const char*>(data), length});
  if (!text.ok()) {
    LOG_EVERY_T(WARNING, kLogEvery) << "data between hosts: dropped: " << text.status().message();
    return UCS_OK;
  }
  const absl::Status status = channel.arriving_.Take(known, text->data(), text->size(), *channel.receiver_);
  if (!status.ok()) channel.Lose(known.process, status);
  return UCS_OK;
}

bool UcxChannel::IsSending() const {
  return sending_ > 0 || std::any_of(payloads_.begin(), payloads_.end(), [](const auto& x) { return !x.empty(); });
}

bool UcxChannel::IsMovingPayloads() const {
  return arriving_.HasParts() || std::any_of(pieces_.begin(), pieces_.end(), [](int pieces) { return pieces > 0; });
}

void UcxChannel::Progress() {
  if (!worker_->Progress()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// Data that peers still wait for is sent; then connections are closed, whether peers notice or not.
void UcxChannel::Close() {
  const auto end = Clock::now() + kCloseTime;
  if (receiver_ != nullptr) SendQueued();
  while (receiver_ != nullptr && IsSending() && Clock::now() < end) Progress();
  std::vector<void*> requests;
  for (size_t p = 0; p < endpoints_.size(); ++p) {
    if (endpoints_[p] == nullptr) continue;
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = is_lost_[p] || receiver_ == nullptr ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    void* const request = ucp_ep_close_nbx(endpoints_[p], &param);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) requests.push_back(request);
  }
  const auto is_open = [](void* request) { return ucp_request_check_status(request) == UCS_INPROGRESS; };
  while ((sending_ > 0 || std::any_of(requests.begin(), requests.end(), is_open)) && Clock::now() < end) Progress();
  for (void* const request : requests) ucp_request_free(request);
}

void UcxChannel::SendMessages(int process, absl::Span<const Message> messages) {
  while (!messages.empty()) {
    const absl::Span<const Message> frame = messages.subspan(0, kMostMessages);
    auto outgoing = std::make_unique<Outgoing>();
    outgoing->process = process;
    outgoing->messages.assign(reinterpret_cast<const char*>(frame.data()), frame.size() * sizeof(Message));
    Post(std::move(outgoing));
    messages.remove_prefix(frame.size());
  }
}

void UcxChannel::SendShipment(int process, Use use, const Message& message, const Shipment& shipment, int32_t slot) {
  auto outgoing = std::make_unique<Outgoing>();
  outgoing->process = process;
  outgoing->header.use = static_cast<uint8_t>(use);
  outgoing->header.message = message;
  outgoing->header.num_bytes = outgoing->payload.emplace(shipment, slot).num_bytes();
  Post(std::move(outgoing));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataChannel>> OpenUcxChannel(const DataChannel::Options& options) {
  auto channel = std::make_unique<UcxChannel>(options);
  OF_RETURN_IF_ERROR(channel->Open());
  return channel;
}

}  // namespace oneflow
