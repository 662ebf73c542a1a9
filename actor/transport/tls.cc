#include "actor/transport/tls.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <algorithm>
#include <vector>

namespace oneflow {

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(const TlsIdentity& identity) {
  if (identity.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = identity.authority;
  options.pem_key_cert_pairs.push_back({identity.key, identity.certificate});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const TlsIdentity& identity) {
  if (identity.empty()) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({identity.authority, identity.key, identity.certificate});
}

bool HasUri(const grpc::AuthContext& other, absl::string_view uri) {
  const std::vector<grpc::string_ref> names = other.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME);
  return std::any_of(names.begin(), names.end(), [uri](const grpc::string_ref& name) {
    return absl::string_view(name.data(), name.size()) == uri;
  });
}

}  // namespace oneflow
