// Who may call the scheduler: asked before anything else by every call.
//
//   certificate (TLS)   none, or another CA's          refused in the handshake (tools/control/rpc)
//                       a user's                       what users ask
//                       a part's                       that, and a daemon's session
//   rate                too many requests of a host    ResourceExhausted
//   token               what its role may do (tools/control/security/tokens.h); without a file everyone is an admin
//
// What is refused is logged with the caller's address and what was asked; of a host that is refused again and again,
// now and then, with how often. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "oneflow_core/status.h"
#include "tools/control/scheduler/rate_limit.h"
#include "tools/control/security/tokens.h"

namespace grpc {
class ServerContext;
}  // namespace grpc

namespace oneflow {

// Of one host. A script may submit all it has; a loop that never ends is held to what takes little of a core.
inline constexpr int kRequestsAtOnce = 2000;
inline constexpr int kRequestsPerSecond = 200;

// Who asks, as far as that is known.
struct Caller {
  std::string user;  // the token's name; empty: whoever the caller says it is
  UserRole role = UserRole::kAdmin;
};

class Gate {
 public:
  // `certificates`: the scheduler serves with TLS. `tokens`: the file of them; empty: there are none.
  Gate(bool certificates, const std::string& tokens);

  // A user asks something, "cancel job 7", which takes this role. ResourceExhausted, PermissionDenied, Unauthenticated
  // without a token that is known here, or errors of TokenFile::Find().
  absl::StatusOr<Caller> Admit(const grpc::ServerContext& context, absl::string_view asked, UserRole least);
  // The job that it is about is this user's. PermissionDenied if the caller is neither that nor an admin.
  absl::Status AdmitToJobOf(const std::string& owner, const Caller& caller, const grpc::ServerContext& context,
                            absl::string_view asked);
  // Someone asks by HTTP to look at something, which takes the role kRead. `token`: if one came. Errors as of Admit().
  absl::Status AdmitToLook(const std::string& host, absl::string_view asked, const std::optional<std::string>& token);
  bool has_tokens() const { return tokens_ != nullptr; }
  // A daemon's session. PermissionDenied unless it is a part of the cluster.
  absl::Status AdmitDaemon(const grpc::ServerContext& context);

 private:
  absl::Status CheckRate(const std::string& host);
  absl::Status CheckCertificate(const grpc::ServerContext& context) const;
  absl::StatusOr<Caller> CheckToken(std::optional<absl::string_view> token, UserRole least);
  // `caller`: its address, with the port if that is known; `host`: without.
  absl::Status Refuse(const std::string& host, const std::string& caller, absl::string_view asked,
                      const absl::Status& why);
  absl::Status Refuse(const grpc::ServerContext& context, absl::string_view asked, const absl::Status& why);

  const bool certificates_;
  const std::unique_ptr<TokenFile> tokens_;  // null: there are none
  absl::Mutex mu_;
  RateLimit rate_ ABSL_GUARDED_BY(mu_){kRequestsAtOnce, kRequestsPerSecond};
  RateLimit log_ ABSL_GUARDED_BY(mu_){/*burst=*/10, /*per_second=*/0.2};
  int64_t unlogged_ ABSL_GUARDED_BY(mu_) = 0;  // refusals
};

}  // namespace oneflow
