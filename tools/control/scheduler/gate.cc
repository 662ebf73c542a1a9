#include "tools/control/scheduler/gate.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/transport/tls.h"
#include "glog/logging.h"
#include "tools/control/rpc/rpc.h"
#include "tools/control/security/certificates.h"

namespace oneflow {
namespace {

// "ipv4:127.0.0.1:4711" without the port.
std::string CallingHost(const grpc::ServerContext& context) {
  const std::string peer = context.peer();
  return peer.substr(0, peer.rfind(':'));
}

// What came under kTokenKey, for as long as the call lasts.
std::optional<absl::string_view> TokenOf(const grpc::ServerContext& context) {
  const auto said = context.client_metadata().find(kTokenKey);
  if (said == context.client_metadata().end()) return std::nullopt;
  return absl::string_view(said->second.data(), said->second.size());
}

// Rates must not change because someone sets the clock.
absl::Time SteadyTime() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

Gate::Gate(bool certificates, const std::string& tokens)
    : certificates_(certificates), tokens_(tokens.empty() ? nullptr : std::make_unique<TokenFile>(tokens)) {}

absl::StatusOr<Caller> Gate::Admit(const grpc::ServerContext& context, absl::string_view asked, UserRole least) {
  absl::Status admitted = CheckRate(CallingHost(context));
  if (admitted.ok()) admitted = CheckCertificate(context);
  if (!admitted.ok()) return Refuse(context, asked, admitted);
  if (tokens_ == nullptr) return Caller();
  absl::StatusOr<Caller> caller = CheckToken(TokenOf(context), least);
  if (!caller.ok()) return Refuse(context, asked, caller.status());
  return caller;
}

absl::Status Gate::AdmitToLook(const std::string& host, absl::string_view asked,
                               const std::optional<std::string>& token) {
  absl::Status admitted = CheckRate(host);
  if (admitted.ok() && tokens_ != nullptr) admitted = CheckToken(token, UserRole::kRead).status();
  return admitted.ok() ? admitted : Refuse(host, host, asked, admitted);
}

absl::Status Gate::AdmitToJobOf(const std::string& owner, const Caller& caller, const grpc::ServerContext& context,
                                absl::string_view asked) {
  if (caller.role == UserRole::kAdmin || owner == caller.user) return absl::OkStatus();
  return Refuse(
      context, asked,
      absl::PermissionDeniedError(absl::StrCat("it is '", owner, "'s; the token of '", caller.user, "' has the role '",
                                               UserRoleName(caller.role), "', which is for jobs of its own")));
}

absl::Status Gate::CheckCertificate(const grpc::ServerContext& context) const {
  if (!certificates_) return absl::OkStatus();
  const grpc::AuthContext& caller = *context.auth_context();
  if (HasUri(caller, UriOf(Holder::kUser)) || HasUri(caller, UriOf(Holder::kCluster))) return absl::OkStatus();
  return absl::PermissionDeniedError("the caller's certificate is neither a user's nor a part's of the cluster");
}

absl::StatusOr<Caller> Gate::CheckToken(std::optional<absl::string_view> token, UserRole least) {
  if (!token) {
    return absl::UnauthenticatedError(
        "no token came: ONEFLOW_TOKEN or ~/.config/oneflow/token holds one, which is sent over TLS or within a "
        "machine");
  }
  OF_ASSIGN_OR_RETURN(const TokenEntry entry, tokens_->Find(*token));
  if (entry.role >= least) return Caller{.user = entry.name, .role = entry.role};
  return absl::PermissionDeniedError(absl::StrCat("the token of '", entry.name, "' has the role '",
                                                  UserRoleName(entry.role), "'; this takes '", UserRoleName(least),
                                                  "'"));
}

absl::Status Gate::AdmitDaemon(const grpc::ServerContext& context) {
  if (!certificates_ || HasUri(*context.auth_context(), UriOf(Holder::kCluster))) return absl::OkStatus();
  return Refuse(context, "be a daemon",
                absl::PermissionDeniedError("the caller's certificate is of no part of the cluster"));
}

absl::Status Gate::CheckRate(const std::string& host) {
  absl::MutexLock lock(&mu_);
  if (rate_.Take(host, SteadyTime())) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("more than ", kRequestsPerSecond, " requests a second come from your host: try again"));
}

absl::Status Gate::Refuse(const grpc::ServerContext& context, absl::string_view asked, const absl::Status& why) {
  return Refuse(CallingHost(context), context.peer(), asked, why);
}

absl::Status Gate::Refuse(const std::string& host, const std::string& caller, absl::string_view asked,
                          const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  if (!log_.Take(host, SteadyTime())) {
    ++unlogged_;
    return why;
  }
  const int64_t more = std::exchange(unlogged_, 0);
  LOG(WARNING) << "refused to " << asked << " for " << caller << ": " << why.message()
               << (more == 0 ? "" : absl::StrCat(" (", more, " more since the last were not logged)"));
  return why;
}

}  // namespace oneflow
