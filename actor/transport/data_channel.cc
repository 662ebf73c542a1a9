#include "actor/transport/data_channel.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/transport/payload.h"
#include "actor/transport/seal.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kActiveMessage = 1;
// How long the thread spins before it sleeps, as an actor thread does.
constexpr std::chrono::microseconds kLookTime(20);
// While payloads move, data comes all the time, and without a free core each wake-up takes a core from compute: data
// that comes within this time is taken at once.
constexpr std::chrono::microseconds kPause(250);
// The peer's own error comes over the control network, and is more specific than the loss of the peer.
constexpr std::chrono::milliseconds kWordTime(500);
constexpr std::chrono::seconds kCloseTime(2);
constexpr size_t kMostMessages = 512;  // in one frame, at most the size of a piece
constexpr int kLogEvery = 5;           // seconds between logs of dropped data: anyone can send it
// Payloads go in pieces of this size, of which the library has this many at a time for each peer; messages go between
// them. The receiver requests no piece: there is room, and on a busy link an answer takes long.
constexpr int64_t kPieceBytes = 128 << 10;
constexpr int kMostPieces = 4;
constexpr size_t kLeastAddress = 16;  // of UCX: no card's is shorter
// Frames up to this size are given to the library by the sending thread, if nobody else is using it: that saves waking
// the channel's thread.
constexpr int64_t kSmallBytes = 32 << 10;

absl::Status Error(absl::string_view what, ucs_status_t status) {
  return absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(status)));
}

// The network card with an address, given as numbers or a name; "" if none has it.
std::string InterfaceOf(const std::string& host) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return "";
  ifaddrs* cards = nullptr;
  std::string name;
  if (getifaddrs(&cards) == 0) {
    for (const ifaddrs* card = cards; card != nullptr && name.empty(); card = card->ifa_next) {
      if (card->ifa_addr == nullptr || card->ifa_addr->sa_family != found->ai_family) continue;
      const bool same = found->ai_family == AF_INET
                            ? reinterpret_cast<const sockaddr_in*>(card->ifa_addr)->sin_addr.s_addr ==
                                  reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr.s_addr
                            : found->ai_family == AF_INET6 &&
                                  std::memcmp(&reinterpret_cast<const sockaddr_in6*>(card->ifa_addr)->sin6_addr,
                                              &reinterpret_cast<const sockaddr_in6*>(found->ai_addr)->sin6_addr,
                                              sizeof(in6_addr)) == 0;
      if (same) name = card->ifa_name;
    }
    freeifaddrs(cards);
  }
  freeaddrinfo(found);
  return name;
}

}  // namespace

class DataChannel::Impl {
 public:
  // Before all sent data.
  struct Header {
    uint64_t stamp = 0;
    int32_t process = 0;  // the sender
    uint8_t use = 0;      // DataChannel::Use; 0: messages follow
    uint8_t reserved[3] = {};
    Message message;
    int64_t offset = 0;     // where a piece lands
    int64_t num_bytes = 0;  // of the payload
    uint64_t number = 0;    // of what is sealed
  };
  static_assert(sizeof(Header) == 56);
  static absl::string_view BytesOf(const Header& header) {
    return {reinterpret_cast<const char*>(&header), sizeof(header)};
  }

  // Waiting to be sent: messages or a payload.
  struct Outgoing {
    int process = 0;
    Header header;
    std::string messages;
    std::optional<OutgoingPayload> payload;
    int pieces = 0;         // that UCX has
    bool is_taken = false;  // UCX has, or has had, all of it
  };

  explicit Impl(const Options& options)
      : options_(options),
        sealers_(options.num_processes),
        openers_(options.num_processes),
        endpoints_(options.num_processes, nullptr),
        stamps_(options.num_processes, 0),
        is_lost_(options.num_processes, false),
        payloads_(options.num_processes),
        pieces_(options.num_processes, 0) {}
  ~Impl();

  absl::StatusOr<pb::PeerData> Open();
  absl::Status Connect(int process, const pb::PeerData& peer);
  void Start(Receiver& receiver);
  void Post(std::unique_ptr<Outgoing> outgoing);
  int64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }

 private:
  struct Peer {
    Impl* channel;
    int process;
  };
  // Data in UCX, until it is sent.
  struct Piece {
    Impl* channel = nullptr;
    Outgoing* of = nullptr;
    Header header;
    std::vector<ucp_dt_iov_t> runs;
    std::unique_ptr<char[]> sealed;  // their memory then
  };
  struct Loss {
    Clock::time_point tell_at;
    int process;
    absl::Status status;
  };

  absl::Status Configure(ucp_config_t* config) const;
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
  // The opened text, or `text` if nothing is sealed.
  absl::StatusOr<absl::string_view> Unseal(const Header& header, absl::string_view text);
  void EndPiece(Piece* piece);
  void Lose(int process, absl::Status status);
  void TellLost();
  bool IsSending() const;
  void Progress();
  void Close();

  static ucs_status_t OnActiveMessage(void* arg, const void* header, size_t header_length, void* data, size_t length,
                                      const ucp_am_recv_param_t* param);
  absl::Status Take(const Header& header, const void* data, size_t length);
  absl::Status TakeMessages(int process, const void* data, size_t length);
  absl::Status TakePiece(const Header& header, const void* data, int64_t length);
  static void OnSent(void* request, ucs_status_t status, void* data);
  static void OnBroken(void* arg, ucp_ep_h endpoint, ucs_status_t status);

  const Options options_;
  uint64_t stamp_ = 0;                          // known to peers
  std::string key_;                             // with which peers seal; empty: all is in plain text
  std::vector<std::optional<Sealer>> sealers_;  // by process; then under worker_mu_
  std::vector<std::optional<Opener>> openers_;  // by process; then under worker_mu_
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int wake_ = -1;                    // an event: the queue has something, or the thread is to end
  int worker_fd_ = -1;               // owned by the worker
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
  ArrivingPayloads arriving_;
  std::vector<std::unique_ptr<Outgoing>> taken_;
  std::vector<std::unique_ptr<char[]>> spare_;  // for what is sealed: as many as were ever on their way

  std::mutex mu_;
  std::vector<std::unique_ptr<Outgoing>> queue_;  // guarded by mu_
  std::atomic<bool> has_queued_{false}, asleep_{false}, quit_{false};
  std::atomic<int64_t> bytes_sent_{0};
  std::thread thread_;
};

absl::Status DataChannel::Impl::Configure(ucp_config_t* config) const {
  const auto set = [&](const char* name, const std::string& value) {
    if (std::getenv(absl::StrCat("UCX_", name).c_str()) != nullptr) return absl::OkStatus();  // the user knows better
    const ucs_status_t status = ucp_config_modify(config, name, value.c_str());
    return status == UCS_OK ? absl::OkStatus() : Error(absl::StrCat("UCX's setting ", name, "=", value), status);
  };
  // Hosts of a plan may be one machine; what they have between them is a network all the same.
  OF_RETURN_IF_ERROR(set("TLS", "^shm"));
  const std::string card = InterfaceOf(options_.host);
  return card.empty() ? absl::OkStatus() : set("NET_DEVICES", card);
}

absl::StatusOr<pb::PeerData> DataChannel::Impl::Open() {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return Error("UCX cannot be set up", status);
  const absl::Status configured = Configure(config);
  if (configured.ok()) {
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    status = ucp_init(&params, config, &context_);
  }
  ucp_config_release(config);
  OF_RETURN_IF_ERROR(configured);
  if (status != UCS_OK) return Error("UCX finds no network", status);

  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucp_worker_create(context_, &params, &worker_);
  if (status != UCS_OK) return Error("UCX finds no network", status);
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG |
                       UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = kActiveMessage;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = OnActiveMessage;
  handler.arg = this;
  status = ucp_worker_set_am_recv_handler(worker_, &handler);
  if (status == UCS_OK) status = ucp_worker_get_efd(worker_, &worker_fd_);
  if (status != UCS_OK) return Error("UCX cannot be set up", status);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0 || getrandom(&stamp_, sizeof(stamp_), 0) != sizeof(stamp_)) {
    return absl::ResourceExhaustedError(absl::StrCat("no events or random bytes: ", strerror(errno)));
  }
  ucp_address_t* address = nullptr;
  size_t length = 0;
  status = ucp_worker_get_address(worker_, &address, &length);
  if (status != UCS_OK) return Error("UCX has no address", status);
  pb::PeerData mine;
  mine.set_address(std::string(reinterpret_cast<const char*>(address), length));
  mine.set_stamp(stamp_);
  if (options_.is_secret) {
    OF_ASSIGN_OR_RETURN(key_, MakeSealKey());
    mine.set_key(key_);
  }
  ucp_worker_release_address(worker_, address);
  return mine;
}

absl::Status DataChannel::Impl::Connect(int process, const pb::PeerData& peer) {
  if (peer.address().size() < kLeastAddress) {
    return absl::InvalidArgumentError(absl::StrCat("process ", process, " announces an address for data of ",
                                                   peer.address().size(), " bytes, which is none"));
  }
  if (options_.is_secret) {
    OF_ASSIGN_OR_RETURN_AT(sealers_[process], Sealer::Make(peer.key(), options_.process),
                           absl::StrCat("process ", process, " announces"));
    OF_ASSIGN_OR_RETURN(openers_[process], Opener::Make(key_, process));
  }
  peers_.push_back({this, process});
  stamps_[process] = peer.stamp();
  ucp_ep_params_t params = {};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address().data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = OnBroken;
  params.err_handler.arg = &peers_.back();
  const ucs_status_t status = ucp_ep_create(worker_, &params, &endpoints_[process]);
  if (status == UCS_OK) return absl::OkStatus();
  endpoints_[process] = nullptr;
  return Error(absl::StrCat("no way to process ", process), status);
}

void DataChannel::Impl::Start(Receiver& receiver) {
  receiver_ = &receiver;
  thread_ = std::thread([this] { Loop(); });
}

DataChannel::Impl::~Impl() {
  if (thread_.joinable()) {
    quit_ = true;
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof(one));
    thread_.join();
  }
  if (worker_ != nullptr) Close();
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
  if (wake_ >= 0) close(wake_);
}

void DataChannel::Impl::Post(std::unique_ptr<Outgoing> outgoing) {
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

void DataChannel::Impl::Loop() {
  while (!quit_) {
    {
      std::lock_guard<std::mutex> lock(worker_mu_);
      SendQueued();
      while (ucp_worker_progress(worker_) > 0) SendQueued();
      TellLost();
    }
    if (!quit_) Await();
  }
}

void DataChannel::Impl::Await() {
  if (options_.cores != nullptr && options_.cores->TryTakeOne()) {
    bool found = false;
    const auto end = Clock::now() + kLookTime;
    while (!found && !options_.cores->exceeded() && Clock::now() < end) {
      std::lock_guard<std::mutex> lock(worker_mu_);
      found = ucp_worker_progress(worker_) > 0 || HasWork();
    }
    options_.cores->GiveBack(1);
    if (found) return;
  }
  std::unique_lock<std::mutex> lock(worker_mu_);
  const bool is_moving = IsMovingPayloads();
  if (!is_moving && ucp_worker_arm(worker_) != UCS_OK) return;  // something has come
  const bool soon = !losses_.empty();                           // to be told
  lock.unlock();
  if (is_moving) return Sleep(/*events=*/1, kPause);
  Sleep(/*events=*/2, soon ? std::chrono::milliseconds(50) : std::chrono::milliseconds(1000));
}

// Until there is something to send or, with two events, something has come.
void DataChannel::Impl::Sleep(int events, std::chrono::nanoseconds limit) {
  asleep_ = true;
  if (!HasWork()) {
    pollfd of[2] = {{wake_, POLLIN, 0}, {worker_fd_, POLLIN, 0}};
    const timespec until = {limit / std::chrono::seconds(1), (limit % std::chrono::seconds(1)).count()};
    ppoll(of, events, &until, nullptr);
    uint64_t count = 0;
    if (of[0].revents != 0) (void)!read(wake_, &count, sizeof(count));
  }
  asleep_ = false;
}

void DataChannel::Impl::SendQueued() {
  if (!has_queued_.exchange(false)) return;
  {
    std::lock_guard<std::mutex> lock(mu_);
    taken_.swap(queue_);
  }
  for (std::unique_ptr<Outgoing>& outgoing : taken_) SendOne(std::move(outgoing));
  taken_.clear();
}

void DataChannel::Impl::SendOne(std::unique_ptr<Outgoing> outgoing) {
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

void DataChannel::Impl::SendPieces(int process) {
  std::deque<std::unique_ptr<Outgoing>>& payloads = payloads_[process];
  while (!payloads.empty() && pieces_[process] < kMostPieces) {
    Outgoing& payload = *payloads.front();
    const OutgoingPayload::Piece piece = payload.payload->Next(kPieceBytes);
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

void DataChannel::Impl::SendPiece(Outgoing& of, std::vector<ucp_dt_iov_t> runs, int64_t offset) {
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
      ucp_am_send_nbx(endpoints_[process], kActiveMessage, &piece->header, sizeof(Header), data, count, &param);
  if (UCS_PTR_IS_ERR(request)) Lose(process, Error("sending", UCS_PTR_STATUS(request)));
  if (request == nullptr || UCS_PTR_IS_ERR(request)) EndPiece(piece);  // else OnSent does
}

absl::Status DataChannel::Impl::Seal(Piece& piece) {
  std::optional<Sealer>& sealer = sealers_[piece.of->process];
  if (!sealer.has_value()) return absl::OkStatus();
  std::vector<absl::string_view> runs;
  for (const ucp_dt_iov_t& run : piece.runs) runs.emplace_back(static_cast<const char*>(run.buffer), run.length);
  piece.header.number = sealer->next_number();
  if (spare_.empty()) {
    piece.sealed.reset(new char[kPieceBytes + kSealTagBytes]);
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

absl::StatusOr<absl::string_view> DataChannel::Impl::Unseal(const Header& header, absl::string_view text) {
  if (key_.empty()) return text;
  std::optional<Opener>& opener = openers_[header.process];
  if (opener.has_value()) return opener->Open(header.number, BytesOf(header), text);
  return absl::PermissionDeniedError(absl::StrCat("process ", header.process, " sends us nothing"));
}

void DataChannel::Impl::OnSent(void* request, ucs_status_t, void* data) {  // errors come to OnBroken as well
  auto* const piece = static_cast<Piece*>(data);
  Impl& channel = *piece->channel;
  const int process = piece->of->process;
  ucp_request_free(request);
  channel.EndPiece(piece);
  channel.SendPieces(process);
}

void DataChannel::Impl::EndPiece(Piece* piece) {
  Outgoing* const of = piece->of;
  --sending_;
  if (of->payload.has_value()) --pieces_[of->process];
  if (--of->pieces == 0 && of->is_taken) delete of;
  if (piece->sealed != nullptr) spare_.push_back(std::move(piece->sealed));
  delete piece;
}

void DataChannel::Impl::OnBroken(void* arg, ucp_ep_h, ucs_status_t status) {
  const Peer& peer = *static_cast<Peer*>(arg);
  peer.channel->Lose(peer.process, Error("the connection broke", status));
}

void DataChannel::Impl::Lose(int process, absl::Status status) {
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

void DataChannel::Impl::TellLost() {
  const auto now = Clock::now();
  const auto is_due = [now](const Loss& loss) { return loss.tell_at <= now; };
  for (const Loss& loss : losses_) {
    if (is_due(loss)) receiver_->OnChannelLost(loss.process, loss.status);
  }
  losses_.erase(std::remove_if(losses_.begin(), losses_.end(), is_due), losses_.end());
}

ucs_status_t DataChannel::Impl::OnActiveMessage(void* arg, const void* header, size_t header_length, void* data,
                                                size_t length, const ucp_am_recv_param_t* param) {
  Impl& channel = *static_cast<Impl*>(arg);
  Header known;
  if (header_length != sizeof(known) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  std::memcpy(&known, header, sizeof(known));
  const bool was_introduced =
      known.stamp == channel.stamp_ && known.process >= 0 && known.process < channel.options_.num_processes;
  if (!was_introduced) return UCS_OK;
  const absl::StatusOr<absl::string_view> text = channel.Unseal(known, {static_cast<const char*>(data), length});
  if (!text.ok()) {
    LOG_EVERY_T(WARNING, kLogEvery) << "data between hosts: dropped: " << text.status().message();
    return UCS_OK;
  }
  const absl::Status status = channel.Take(known, text->data(), text->size());
  if (!status.ok()) channel.Lose(known.process, status);
  return UCS_OK;
}

absl::Status DataChannel::Impl::Take(const Header& header, const void* data, size_t length) {
  return header.use == 0 ? TakeMessages(header.process, data, length)
                         : TakePiece(header, data, static_cast<int64_t>(length));
}

absl::Status DataChannel::Impl::TakeMessages(int process, const void* data, size_t length) {
  if (length % sizeof(Message) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(length, " bytes are no messages of ", sizeof(Message)));
  }
  std::vector<Message> messages(length / sizeof(Message));
  std::memcpy(messages.data(), data, length);
  for (const Message& message : messages) {
    if (message.kind == Message::Kind::kFilled || message.kind == Message::Kind::kFreed) continue;
    return absl::InvalidArgumentError(absl::StrCat("a message of kind ", static_cast<int>(message.kind)));
  }
  receiver_->OnMessages(process, messages);
  return absl::OkStatus();
}

absl::Status DataChannel::Impl::TakePiece(const Header& header, const void* data, int64_t length) {
  const auto use = static_cast<Use>(header.use);
  if (header.message.kind != Message::Kind::kFilled) return absl::InvalidArgumentError("a payload without 'filled'");
  OF_ASSIGN_OR_RETURN(const absl::Span<char> room, receiver_->RoomFor(use, header.message, header.num_bytes));
  OF_ASSIGN_OR_RETURN(const bool complete, arriving_.Add(header.process, header.use, header.message, header.offset,
                                                         length, header.num_bytes, static_cast<int64_t>(room.size())));
  if (length > 0) std::memcpy(room.data() + header.offset, data, length);
  if (complete) receiver_->OnArrived(header.process, use, header.message);
  return absl::OkStatus();
}

bool DataChannel::Impl::IsSending() const {
  return sending_ > 0 || std::any_of(payloads_.begin(), payloads_.end(), [](const auto& x) { return !x.empty(); });
}

bool DataChannel::Impl::IsMovingPayloads() const {
  return arriving_.any() || std::any_of(pieces_.begin(), pieces_.end(), [](int pieces) { return pieces > 0; });
}

void DataChannel::Impl::Progress() {
  if (ucp_worker_progress(worker_) == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// Data that peers still wait for is sent; then connections are closed, whether peers notice or not.
void DataChannel::Impl::Close() {
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

DataChannel::DataChannel(std::unique_ptr<Impl> impl, pb::PeerData announcement)
    : impl_(std::move(impl)), announcement_(std::move(announcement)) {}
DataChannel::~DataChannel() = default;

absl::StatusOr<std::unique_ptr<DataChannel>> DataChannel::Create(const Options& options) {
  auto impl = std::make_unique<Impl>(options);
  OF_ASSIGN_OR_RETURN_AT(pb::PeerData mine, impl->Open(), "data between hosts");
  return absl::WrapUnique(new DataChannel(std::move(impl), std::move(mine)));
}

absl::Status DataChannel::Connect(int process, const pb::PeerData& peer) { return impl_->Connect(process, peer); }
void DataChannel::Start(Receiver& receiver) { impl_->Start(receiver); }
int64_t DataChannel::bytes_sent() const { return impl_->bytes_sent(); }

void DataChannel::SendMessages(int process, absl::Span<const Message> messages) {
  while (!messages.empty()) {
    const absl::Span<const Message> frame = messages.subspan(0, kMostMessages);
    auto outgoing = std::make_unique<Impl::Outgoing>();
    outgoing->process = process;
    outgoing->messages.assign(reinterpret_cast<const char*>(frame.data()), frame.size() * sizeof(Message));
    impl_->Post(std::move(outgoing));
    messages.remove_prefix(frame.size());
  }
}

void DataChannel::SendShipment(int process, Use use, const Message& message, const Shipment& shipment, int32_t slot) {
  auto outgoing = std::make_unique<Impl::Outgoing>();
  outgoing->process = process;
  outgoing->header.use = static_cast<uint8_t>(use);
  outgoing->header.message = message;
  outgoing->header.num_bytes = outgoing->payload.emplace(shipment, slot).num_bytes();
  impl_->Post(std::move(outgoing));
}

}  // namespace oneflow
