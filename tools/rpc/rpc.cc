#include "tools/rpc/rpc.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// The largest plan of a job that anyone has made takes 16 MB; a message is held in memory before anyone looks at it.
constexpr int kMostBytes = 256 << 20;
// A host that vanishes closes no connection; only an unanswered ping tells.
constexpr int kPingMs = 5000;

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostBytes);
  arguments.SetMaxSendMessageSize(kMostBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A channel of its own per caller: a shared one would be torn down and backed off with its neighbours.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

absl::Status AwaitConnected(grpc::Channel& channel, const std::string& who, absl::Duration timeout) {
  if (channel.WaitForConnected(std::chrono::system_clock::now() + absl::ToChronoMicroseconds(timeout))) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat(who, ": cannot connect within ", absl::FormatDuration(timeout), ": is it running there?"));
}

absl::StatusOr<Listener> Listen(const std::string& address, const std::vector<grpc::Service*>& services) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' is not host:port"));
  }
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(kMostBytes);
  builder.SetMaxSendMessageSize(kMostBytes);
  // Otherwise a second server would share the port, each getting some of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingMs / 2);
  for (grpc::Service* service : services) builder.RegisterService(service);
  Listener listener;
  listener.server = builder.BuildAndStart();
  if (listener.server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on '", address, "': is it taken?"));
  }
  listener.address = absl::StrCat(address.substr(0, colon), ":", port);
  return listener;
}

}  // namespace oneflow
