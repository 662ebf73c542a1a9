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
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kActiveMessage = 1;
// Looks for work so long before it sleeps, as an actor thread does.
constexpr std::chrono::microseconds kLookTime(20);
// The peer's own error comes over the control network, and says more than that it is gone.
constexpr std::chrono::milliseconds kWordTime(500);
constexpr std::chrono::seconds kCloseTime(2);
// Longer lists of runs are packed.
constexpr int64_t kMostRuns = 64;
constexpr int64_t kMostMessages = 512;  // in one frame; they travel with the header, never by rendezvous

absl::Status Error(absl::string_view what, ucs_status_t status) {
  return absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(status)));
}

// The network card that has an address, given as numbers or a name; "" if none has.
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
  // Before everything that is sent.
  struct Header {
    uint64_t stamp = 0;
    int32_t process = 0;  // the sender
    uint8_t use = 0;      // DataChannel::Use; 0: messages follow
    uint8_t reserved[3] = {};
    Message message;
  };
  static_assert(sizeof(Header) == 32);

  // What waits to be given to UCX, and what UCX holds until it is sent.
  struct Parcels {
    int process = 0;
    Header header;
    std::vector<ucp_dt_iov_t> runs;  // of memory that stays
    std::string packed;              // or else this
    int64_t num_bytes = 0;
  };

  explicit Impl(const Options& options)
      : options_(options), endpoints_(options.num_processes, nullptr), is_lost_(options.num_processes, false) {}
  ~Impl();

  absl::StatusOr<pb::PeerData> Open();
  absl::Status Connect(int process, const pb::PeerData& peer);
  void Start(Receiver& receiver);
  void Post(std::unique_ptr<Parcels> parcels);
  int64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }

 private:
  // Of a payload that is on its way here.
  struct Arrival {
    Impl* channel;
    int process;
    Use use;
    Message message;
  };
  struct Peer {
    Impl* channel;
    int process;
  };

  absl::Status Configure(ucp_config_t* config) const;
  void Loop();
  // Returns when there may be something to do.
  void Await();
  bool HasWork();
  void SendQueued();
  void SendOne(std::unique_ptr<Parcels> parcels);
  void Lose(int process, absl::Status status);
  void TellLost(bool all);
  void Close();

  static ucs_status_t OnActiveMessage(void* arg, const void* header, size_t header_length, void* data, size_t length,
                                      const ucp_am_recv_param_t* param);
  ucs_status_t Take(const Header& header, void* data, size_t length, bool by_rendezvous);
  absl::Status TakeMessages(int process, const void* data, size_t length, bool by_rendezvous);
  ucs_status_t TakePayload(const Header& header, void* data, size_t length, bool by_rendezvous);
  static void OnSent(void* request, ucs_status_t status, void* data);
  static void OnReceived(void* request, ucs_status_t status, size_t length, void* data);
  static void OnBroken(void* arg, ucp_ep_h endpoint, ucs_status_t status);

  const Options options_;
  uint64_t stamp_ = 0;  // that peers have to know
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int wake_ = -1;                    // an event: the queue has something, or the thread is to end
  int worker_fd_ = -1;               // owned by the worker
  std::vector<ucp_ep_h> endpoints_;  // by process
  std::vector<uint64_t> stamps_ = std::vector<uint64_t>(endpoints_.size(), 0);
  std::vector<bool> is_lost_;
  std::deque<Peer> peers_;  // arguments of callbacks
  Receiver* receiver_ = nullptr;
  int64_t sending_ = 0;                                                           // that UCX holds
  std::vector<std::pair<Clock::time_point, std::pair<int, absl::Status>>> lost_;  // to be told, and when

  std::mutex mu_;
  std::vector<std::unique_ptr<Parcels>> queue_;  // guarded by mu_
  std::atomic<bool> has_queued_{false}, asleep_{false}, quit_{false};
  std::vector<std::unique_ptr<Parcels>> taken_;
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
  ucp_worker_release_address(worker_, address);
  return mine;
}

absl::Status DataChannel::Impl::Connect(int process, const pb::PeerData& peer) {
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

void DataChannel::Impl::Post(std::unique_ptr<Parcels> parcels) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    queue_.push_back(std::move(parcels));
  }
  has_queued_ = true;
  if (!asleep_) return;
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
}

void DataChannel::Impl::Loop() {
  while (!quit_) {
    SendQueued();
    while (ucp_worker_progress(worker_) > 0) SendQueued();
    TellLost(/*all=*/false);
    if (!quit_) Await();
  }
}

bool DataChannel::Impl::HasWork() { return has_queued_ || quit_; }

void DataChannel::Impl::Await() {
  if (options_.cores != nullptr && options_.cores->TryTakeOne()) {
    bool found = false;
    const auto end = Clock::now() + kLookTime;
    while (!found && !options_.cores->exceeded() && Clock::now() < end) {
      found = ucp_worker_progress(worker_) > 0 || HasWork();
    }
    options_.cores->GiveBack(1);
    if (found) return;
  }
  if (ucp_worker_arm(worker_) != UCS_OK) return;  // something has come
  asleep_ = true;
  if (!HasWork()) {
    pollfd events[2] = {{worker_fd_, POLLIN, 0}, {wake_, POLLIN, 0}};
    poll(events, 2, lost_.empty() ? 1000 : 50);
    uint64_t count = 0;
    if (events[1].revents != 0) (void)!read(wake_, &count, sizeof(count));
  }
  asleep_ = false;
}

void DataChannel::Impl::SendQueued() {
  if (!has_queued_.exchange(false)) return;
  {
    std::lock_guard<std::mutex> lock(mu_);
    taken_.swap(queue_);
  }
  for (std::unique_ptr<Parcels>& parcels : taken_) SendOne(std::move(parcels));
  taken_.clear();
}

void DataChannel::Impl::SendOne(std::unique_ptr<Parcels> parcels) {
  const int process = parcels->process;
  if (is_lost_[process] || endpoints_[process] == nullptr) return;
  parcels->header.stamp = stamps_[process];
  parcels->header.process = options_.process;
  const bool in_runs = !parcels->runs.empty();
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
  param.cb.send = OnSent;
  param.flags = parcels->header.use == 0 ? UCP_AM_SEND_FLAG_EAGER : 0;
  const bool one_run = in_runs && parcels->runs.size() == 1;
  param.datatype = in_runs && !one_run ? ucp_dt_make_iov() : ucp_dt_make_contig(1);
  const void* data = one_run   ? parcels->runs[0].buffer
                     : in_runs ? static_cast<const void*>(parcels->runs.data())
                               : parcels->packed.data();
  const size_t count = one_run ? parcels->runs[0].length : in_runs ? parcels->runs.size() : parcels->packed.size();
  bytes_sent_.fetch_add(parcels->header.use == 0 ? 0 : parcels->num_bytes, std::memory_order_relaxed);
  auto held = std::make_unique<std::pair<Impl*, std::unique_ptr<Parcels>>>(this, std::move(parcels));
  param.user_data = held.get();
  void* const request =
      ucp_am_send_nbx(endpoints_[process], kActiveMessage, &held->second->header, sizeof(Header), data, count, &param);
  if (UCS_PTR_IS_ERR(request)) return Lose(process, Error("sending", UCS_PTR_STATUS(request)));
  if (request == nullptr) return;
  ++sending_;
  (void)held.release();  // OnSent has it
}

void DataChannel::Impl::OnSent(void* request, ucs_status_t, void* data) {  // errors come to OnBroken as well
  const std::unique_ptr<std::pair<Impl*, std::unique_ptr<Parcels>>> held(
      static_cast<std::pair<Impl*, std::unique_ptr<Parcels>>*>(data));
  --held->first->sending_;
  ucp_request_free(request);
}

void DataChannel::Impl::OnBroken(void* arg, ucp_ep_h, ucs_status_t status) {
  const Peer& peer = *static_cast<Peer*>(arg);
  peer.channel->Lose(peer.process, Error("the connection broke", status));
}

void DataChannel::Impl::Lose(int process, absl::Status status) {
  if (is_lost_[process]) return;
  is_lost_[process] = true;
  const bool nonsense = absl::IsInvalidArgument(status);
  lost_.push_back({Clock::now() + (nonsense ? std::chrono::milliseconds(0) : kWordTime),
                   {process, Annotate(status, absl::StrCat("data of process ", process))}});
}

void DataChannel::Impl::TellLost(bool all) {
  const auto now = Clock::now();
  for (size_t i = 0; i < lost_.size();) {
    if (!all && lost_[i].first > now) {
      ++i;
      continue;
    }
    const auto [process, status] = lost_[i].second;
    lost_.erase(lost_.begin() + static_cast<std::ptrdiff_t>(i));
    receiver_->OnChannelLost(process, status);
  }
}

ucs_status_t DataChannel::Impl::OnActiveMessage(void* arg, const void* header, size_t header_length, void* data,
                                                size_t length, const ucp_am_recv_param_t* param) {
  Header known;
  if (header_length != sizeof(known)) return UCS_OK;  // of nobody who was introduced
  std::memcpy(&known, header, sizeof(known));
  const bool by_rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  return static_cast<Impl*>(arg)->Take(known, data, length, by_rendezvous);
}

ucs_status_t DataChannel::Impl::Take(const Header& header, void* data, size_t length, bool by_rendezvous) {
  if (header.stamp != stamp_ || header.process < 0 || header.process >= options_.num_processes) return UCS_OK;
  if (header.use != 0) return TakePayload(header, data, length, by_rendezvous);
  const absl::Status status = TakeMessages(header.process, data, length, by_rendezvous);
  if (!status.ok()) Lose(header.process, status);
  return UCS_OK;
}

absl::Status DataChannel::Impl::TakeMessages(int process, const void* data, size_t length, bool by_rendezvous) {
  if (by_rendezvous || length % sizeof(Message) != 0) {
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

ucs_status_t DataChannel::Impl::TakePayload(const Header& header, void* data, size_t length, bool by_rendezvous) {
  const auto use = static_cast<Use>(header.use);
  const absl::StatusOr<char*> room = receiver_->RoomFor(use, header.message, static_cast<int64_t>(length));
  if (!room.ok()) {
    Lose(header.process, room.status());
    return UCS_OK;
  }
  if (!by_rendezvous) {
    std::memcpy(*room, data, length);
    receiver_->OnArrived(header.process, use, header.message);
    return UCS_OK;
  }
  auto arrival = std::make_unique<Arrival>(Arrival{this, header.process, use, header.message});
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = OnReceived;
  param.user_data = arrival.get();
  void* const request = ucp_am_recv_data_nbx(worker_, data, *room, length, &param);
  if (UCS_PTR_IS_ERR(request)) {
    Lose(header.process, Error("receiving", UCS_PTR_STATUS(request)));
  } else if (request == nullptr) {
    receiver_->OnArrived(header.process, use, header.message);
  } else {
    (void)arrival.release();  // OnReceived has it
  }
  return UCS_INPROGRESS;
}

void DataChannel::Impl::OnReceived(void* request, ucs_status_t status, size_t, void* data) {
  const std::unique_ptr<Arrival> arrival(static_cast<Arrival*>(data));
  ucp_request_free(request);
  if (status == UCS_OK) {
    arrival->channel->receiver_->OnArrived(arrival->process, arrival->use, arrival->message);
  } else {
    arrival->channel->Lose(arrival->process, Error("receiving", status));
  }
}

// What peers still wait for is sent; then connections are closed, whether they hear of it or not.
void DataChannel::Impl::Close() {
  const auto end = Clock::now() + kCloseTime;
  SendQueued();
  std::vector<void*> requests;
  for (size_t p = 0; p < endpoints_.size(); ++p) {
    if (endpoints_[p] == nullptr) continue;
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = is_lost_[p] ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    void* const request = ucp_ep_close_nbx(endpoints_[p], &param);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) requests.push_back(request);
  }
  const auto is_open = [](void* request) { return ucp_request_check_status(request) == UCS_INPROGRESS; };
  while ((sending_ > 0 || std::any_of(requests.begin(), requests.end(), is_open)) && Clock::now() < end) {
    if (ucp_worker_progress(worker_) == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
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
  for (; !messages.empty(); messages.remove_prefix(std::min<size_t>(messages.size(), kMostMessages))) {
    const absl::Span<const Message> frame = messages.subspan(0, kMostMessages);
    auto parcels = std::make_unique<Impl::Parcels>();
    parcels->process = process;
    parcels->packed.assign(reinterpret_cast<const char*>(frame.data()), frame.size() * sizeof(Message));
    impl_->Post(std::move(parcels));
  }
}

void DataChannel::SendShipment(int process, Use use, const Message& message, const Shipment& shipment, int32_t slot) {
  auto parcels = std::make_unique<Impl::Parcels>();
  parcels->process = process;
  parcels->header.use = static_cast<uint8_t>(use);
  parcels->header.message = message;
  parcels->num_bytes = shipment.num_bytes();
  if (shipment.num_runs() > kMostRuns) {
    parcels->packed.resize(shipment.num_bytes());
    shipment.CopyTo(slot, parcels->packed.data());
  } else {
    shipment.ForEachRun(slot, [&](Shipment::Run run) {
      parcels->runs.push_back({const_cast<char*>(run.data()), run.size()});  // UCX only reads it
    });
  }
  impl_->Post(std::move(parcels));
}

}  // namespace oneflow
