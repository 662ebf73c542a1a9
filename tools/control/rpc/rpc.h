// The few things about gRPC that all parts of the control plane do the same way. Included by sources only: it costs
// seconds.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "actor/transport/tls.h"
#include "oneflow_core/status.h"

namespace oneflow {

// The codes of the two libraries are the same numbers.
absl::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

// Messages of up to 256 MiB (plans are large), no proxy, and a peer that is silent for ten seconds is gone. Plain text
// without an identity.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address, const TlsIdentity& identity = {});

// How a call of any method ends that sends an empty message.
grpc::Status CallWithNothing(const std::shared_ptr<grpc::ChannelInterface>& channel, const std::string& method,
                             grpc::ClientContext& context);

// Under which a client's token travels, as metadata of a call.
inline constexpr char kTokenKey[] = "oneflow-token";

// Waits until the server has answered. Unavailable naming `who`, "scheduler '127.0.0.1:7000'", after `timeout`, with
// what is wrong with certificates if they are what it fails by. With an identity: PermissionDenied if the server's
// certificate is of no part of the cluster, whoever has signed it.
absl::Status AwaitConnected(const std::shared_ptr<grpc::Channel>& channel, const std::string& who,
                            absl::Duration timeout, const TlsIdentity& identity = {});

// PermissionDenied if a caller must show a certificate of a part of the cluster, and shows another.
absl::Status CheckClusterCaller(const grpc::ServerContext& context, bool certificates);

// Whether only this machine can reach what listens on "host:port", or on a host. False for what is no address.
bool IsLoopback(const std::string& address);

// How a server is reached, and by whom.
struct Access {
  TlsIdentity identity;   // empty: plain text
  bool insecure = false;  // plain text is meant, also beyond loopback
};
// FailedPrecondition if other machines can reach `address` in plain text and nobody has said that this is meant.
absl::Status MayListen(const std::string& address, const Access& access);

// What callers can make a server hold. A message is held in memory as a whole before anyone looks at it, or at who
// sends it. Beyond `memory_bytes` gRPC ends calls until there is less; it looks behind what has come, so that a burst
// of callers on the same machine was seen to pass 64 MiB by 200 to 700 for a moment.
struct ServerLimits {
  int message_bytes = 256 << 20;            // the largest plan of a job that anyone has made takes 16 MB
  int64_t memory_bytes = int64_t{1} << 30;  // of all connections together
  int calls = 100;                          // of a connection at a time, whose others wait at the client
};

struct Listener {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // with the port that the system chose if the asked one was 0
};
// Serves on "host:port" or "[ipv6]:port". InvalidArgument if that is not an address, Unavailable if it is taken, errors
// of MayListen(). With an identity, callers who show no certificate of the same authority are refused before anything
// they say is read, and that is logged; gRPC does not say whence they come.
absl::StatusOr<Listener> Listen(const std::string& address, const std::vector<grpc::Service*>& services,
                                const Access& access = {}, const ServerLimits& limits = {});

}  // namespace oneflow
