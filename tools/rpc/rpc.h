// The few things about gRPC that all parts of the control plane do the same way. Included by sources only: it costs
// seconds.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "oneflow_core/status.h"

namespace oneflow {

// The codes of the two libraries are the same numbers.
absl::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

// Plain text, messages of up to 256 MiB (plans are large), no proxy, and a peer that is silent for ten seconds is gone.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address);

// Waits until the server has answered. Unavailable naming `who`, "scheduler '127.0.0.1:7000'", after `timeout`.
absl::Status AwaitConnected(grpc::Channel& channel, const std::string& who, absl::Duration timeout);

struct Listener {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // with the port that the system chose if the asked one was 0
};
// Serves on "host:port" or "[ipv6]:port". InvalidArgument if that is not an address, Unavailable if it is taken.
absl::StatusOr<Listener> Listen(const std::string& address, const std::vector<grpc::Service*>& services);

}  // namespace oneflow
