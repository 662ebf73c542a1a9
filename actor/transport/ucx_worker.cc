#include "actor/transport/ucx_worker.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

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

absl::Status Configure(const std::string& host, ucp_config_t* config) {
  const auto set = [&](const char* name, const std::string& value) {
    if (std::getenv(absl::StrCat("UCX_", name).c_str()) != nullptr) return absl::OkStatus();  // the user knows better
    const ucs_status_t status = ucp_config_modify(config, name, value.c_str());
    return status == UCS_OK ? absl::OkStatus() : UcxError(absl::StrCat("UCX's setting ", name, "=", value), status);
  };
  // Hosts of a plan may be one machine; what they have between them is a network all the same.
  OF_RETURN_IF_ERROR(set("TLS", "^shm"));
  const std::string card = InterfaceOf(host);
  return card.empty() ? absl::OkStatus() : set("NET_DEVICES", card);
}

}  // namespace

absl::Status UcxError(absl::string_view what, ucs_status_t status) {
  return absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(status)));
}

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Open(const Options& options) {
  std::unique_ptr<UcxWorker> worker(new UcxWorker);
  OF_RETURN_IF_ERROR(worker->Init(options));
  OF_RETURN_IF_ERROR(worker->Listen(options));
  return worker;
}

absl::Status UcxWorker::Init(const Options& options) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return UcxError("UCX cannot be set up", status);
  const absl::Status configured = Configure(options.host, config);
  if (configured.ok()) {
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    status = ucp_init(&params, config, &context_);
  }
  ucp_config_release(config);
  OF_RETURN_IF_ERROR(configured);
  return status == UCS_OK ? absl::OkStatus() : UcxError("UCX finds no network", status);
}

absl::Status UcxWorker::Listen(const Options& options) {
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucp_worker_create(context_, &params, &worker_);
  if (status != UCS_OK) return UcxError("UCX finds no network", status);
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG |
                       UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = options.message;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = options.on_message;
  handler.arg = options.of;
  status = ucp_worker_set_am_recv_handler(worker_, &handler);
  if (status == UCS_OK) status = ucp_worker_get_efd(worker_, &fd_);
  return status == UCS_OK ? absl::OkStatus() : UcxError("UCX cannot be set up", status);
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

absl::StatusOr<std::string> UcxWorker::Address() const {
  ucp_address_t* address = nullptr;
  size_t length = 0;
  const ucs_status_t status = ucp_worker_get_address(worker_, &address, &length);
  if (status != UCS_OK) return UcxError("UCX has no address", status);
  std::string bytes(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker_, address);
  return bytes;
}

absl::StatusOr<ucp_ep_h> UcxWorker::Connect(const std::string& whom, const std::string& address,
                                            ucp_err_handler_cb_t on_broken, void* of) {
  ucp_ep_params_t params = {};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_broken;
  params.err_handler.arg = of;
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t status = ucp_ep_create(worker_, &params, &endpoint);
  if (status != UCS_OK) return UcxError(absl::StrCat("no way to ", whom), status);
  return endpoint;
}

}  // namespace oneflow
