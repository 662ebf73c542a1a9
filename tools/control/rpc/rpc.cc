#include "tools/control/rpc/rpc.h"

#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "actor/awake_clock.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

constexpr int kMostBytes = ServerLimits().message_bytes;
// A host that vanishes closes no connection; only an unanswered ping tells.
constexpr int kPingMs = 5000;
// For a call that only asks why there is no connection.
constexpr std::chrono::milliseconds kWhy(200);
// For one that asks who has answered, which may be busy.
constexpr std::chrono::milliseconds kWho(5000);
constexpr int kLogEvery = 5;  // seconds, of handshakes that failed: anyone can cause them

// gRPC says of a failed handshake nothing but this, and to nobody else.
void LogHandshakes(gpr_log_func_args* said) {
  const absl::string_view text = said->message;
  const size_t why = text.find("SSL routines::");
  if (!absl::StrContains(text, "andshake failed")) return;
  LOG_EVERY_T(WARNING, kLogEvery) << "refused in the TLS handshake, by us or by the other: "
                                  << (why == absl::string_view::npos ? text : text.substr(why + 14));
}

// Unless someone wants to hear all that gRPC says.
void ListenToHandshakes() {
  const char* const verbosity = std::getenv("GRPC_VERBOSITY");
  if (verbosity != nullptr && std::strcmp(verbosity, "NONE") != 0) return;
  gpr_set_log_function(LogHandshakes);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
}

// Calls what no server has, to see who answers or why nobody does.
grpc::Status CallNobody(const std::shared_ptr<grpc::ChannelInterface>& channel, std::chrono::milliseconds limit,
                        grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + limit);
  return CallWithNothing(channel, "/oneflow.pb.Nobody/Why", context);
}

// What gRPC says of a connection that does not come about; "" if it says nothing.
std::string WhyNotConnected(const std::shared_ptr<grpc::ChannelInterface>& channel) {
  grpc::ClientContext context;
  return CallNobody(channel, kWhy, context).error_message();
}

// A CA may also have signed servers that are no part of the cluster.
absl::Status CheckServer(const std::shared_ptr<grpc::ChannelInterface>& channel, const std::string& who) {
  grpc::ClientContext context;
  const grpc::Status answer = CallNobody(channel, kWho, context);
  if (answer.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnavailableError(absl::StrCat(who, ": it is connected, but does not answer"));
  }
  const std::shared_ptr<const grpc::AuthContext> server = context.auth_context();
  if (server != nullptr && HasUri(*server, kClusterUri)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(who, ": its certificate is of no part of the cluster (it lacks the URI '", kClusterUri, "')"));
}

std::string HostOf(const std::string& address) {
  const size_t bracket = address.find(']');
  if (absl::StartsWith(address, "[") && bracket != std::string::npos) return address.substr(1, bracket - 1);
  const bool is_bare = std::count(address.begin(), address.end(), ':') != 1;
  return is_bare ? address : address.substr(0, address.find(':'));
}

bool LeadsBack(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

grpc::Status CallWithNothing(const std::shared_ptr<grpc::ChannelInterface>& channel, const std::string& method,
                             grpc::ClientContext& context) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ByteBuffer reply;
  grpc::Status status;
  const grpc::Slice nothing;
  const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&nothing, 1), &queue);
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  return status;
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address, const TlsIdentity& identity) {
  if (!identity.empty()) ListenToHandshakes();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostBytes);
  arguments.SetMaxSendMessageSize(kMostBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!IsLoopback(address)) {  // the system says of a process of this machine that it is gone; others are stopped
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingMs);
  }
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A channel of its own per caller: a shared one would be torn down and backed off with its neighbours.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, ChannelCredentialsOf(identity), arguments);
}

absl::Status CheckClusterCaller(const grpc::ServerContext& context, bool certificates) {
  if (!certificates || HasUri(*context.auth_context(), kClusterUri)) return absl::OkStatus();
  return absl::PermissionDeniedError("the caller's certificate is of no part of the cluster");
}

absl::Status AwaitConnected(const std::shared_ptr<grpc::Channel>& channel, const std::string& who,
                            absl::Duration timeout, const TlsIdentity& identity) {
  AwakeClock clock;
  absl::Duration left = timeout;
  do {
    const absl::Duration pause = std::min(left, AwakeClock::kLook);
    if (channel->WaitForConnected(std::chrono::system_clock::now() + absl::ToChronoMicroseconds(pause))) {
      return identity.empty() ? absl::OkStatus() : CheckServer(channel, who);
    }
    left = timeout - clock.Look();
  } while (left > absl::ZeroDuration());
  const std::string why = WhyNotConnected(channel);
  const std::string sentence = absl::StrCat(who, ": cannot connect within ", absl::FormatDuration(timeout));
  const size_t tls = why.find("SSL routines::");
  if (tls != std::string::npos) {
    return absl::UnavailableError(
        absl::StrCat(sentence, ": ", why.substr(tls + 14), ": are the certificates on both sides of one CA?"));
  }
  const bool hung_up = absl::StrContains(why, "ocket closed") || absl::StrContains(why, "reset by peer");
  return absl::UnavailableError(absl::StrCat(
      sentence, hung_up ? ": someone listens there and hangs up: does it want --tls, or other certificates?"
                        : ": is it running there?"));
}

bool IsLoopback(const std::string& address) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(HostOf(address).c_str(), nullptr, &hints, &found) != 0) return false;
  bool all = found != nullptr;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) all = all && LeadsBack(*one->ai_addr);
  freeaddrinfo(found);
  return all;
}

absl::Status MayListen(const std::string& address, const Access& access) {
  if (!access.identity.empty() || access.insecure || IsLoopback(address)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("'", address,
                   "' can be reached from other machines, where anyone could give orders: name certificates by --tls "
                   "('oneflow certs init' makes them), or say --insecure too"));
}

absl::StatusOr<Listener> Listen(const std::string& address, const std::vector<grpc::Service*>& services,
                                const Access& access, const ServerLimits& limits) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' is not host:port"));
  }
  OF_RETURN_IF_ERROR(MayListen(address, access));
  if (!access.identity.empty()) ListenToHandshakes();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, ServerCredentialsOf(access.identity), &port);
  builder.SetMaxReceiveMessageSize(limits.message_bytes);
  builder.SetResourceQuota(grpc::ResourceQuota("oneflow").Resize(limits.memory_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.calls);
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
