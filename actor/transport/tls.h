// How the two ends of a connection identify themselves (mutual TLS). All parts of a cluster use it the same way, here
// and in tools/control/rpc.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace grpc {
class AuthContext;
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace oneflow {

// In PEM. Empty: plain text, for connections within one machine.
struct TlsIdentity {
  std::string authority;    // trusted signer
  std::string certificate;  // ours
  std::string key;
  bool empty() const { return authority.empty(); }
};

// A server with them accepts only callers whose certificate the authority has signed. Callers accept only a server that
// also has the name by which it is called. Plain text if the identity is empty.
std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(const TlsIdentity& identity);
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const TlsIdentity& identity);

// Whether the other end's certificate has this URI among its names.
bool HasUri(const grpc::AuthContext& other, absl::string_view uri);

// Of the parts of a cluster: the scheduler, daemons, workers.
inline constexpr char kClusterUri[] = "oneflow:cluster";

}  // namespace oneflow
