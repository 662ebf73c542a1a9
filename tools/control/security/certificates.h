// Certificates of a cluster: of its parts, and of those who use it. For clusters whose operators have none.
//
//   FOLDER/ca/       ca.pem key.pem            signs the others; its key stays where it was made
//   FOLDER/cluster/  ca.pem cert.pem key.pem   for the machines of the scheduler and the daemons
//   FOLDER/user/     ca.pem cert.pem key.pem   for those who submit jobs and look at them
//
// Whose a certificate is, it says in a URI among its names: "oneflow:cluster" or "oneflow:user". That of a user may not
// serve, so nobody can play a scheduler or a worker with it. Keys are of the curve P-256, and readable by their owner
// alone.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "actor/transport/tls.h"
#include "oneflow_core/status.h"

namespace oneflow {

enum class Holder { kCluster, kUser };
// "oneflow:cluster", "oneflow:user".
std::string UriOf(Holder holder);

struct CertificateOptions {
  std::vector<std::string>
      hosts;       // names and addresses of the cluster's machines; this machine's own go without saying
  int days = 365;  // until certificates end; the CA's ends after ten years
};
// Makes the folders above. One that has a CA keeps it: certificates that were moved away are made anew, for the same
// cluster. InvalidArgument if a host is no name; AlreadyExists if cluster/ or user/ is there; Unavailable if a file
// cannot be written. What is made is there as a whole or not at all.
absl::Status MakeCertificates(const std::string& folder, const CertificateOptions& options);

// What a certificate says.
struct CertificateFacts {
  std::string subject;
  std::vector<std::string> names;  // of hosts, addresses and holders
  absl::Time ends;
  bool is_authority = false;
};
// InvalidArgument if it is none.
absl::StatusOr<CertificateFacts> ReadCertificate(absl::string_view pem);
// Of all certificates in the folder and those below it, for people.
absl::StatusOr<std::string> DescribeCertificates(const std::string& folder);

// What a folder such as cluster/ or user/ holds, for one that must be `holder`, or may be either; `now`: by which it is
// judged. NotFound if a file is missing; FailedPrecondition if others may read the key; InvalidArgument in one sentence
// if key and certificate do not belong together, another CA than ca.pem has signed it, it has ended or is another
// holder's.
absl::StatusOr<TlsIdentity> LoadIdentity(const std::string& folder, absl::Time now);
absl::StatusOr<TlsIdentity> LoadIdentity(const std::string& folder, Holder holder, absl::Time now);
// The same by the clock of this machine; without a folder an empty identity.
absl::StatusOr<TlsIdentity> LoadIdentityIfAny(const std::string& folder);
absl::StatusOr<TlsIdentity> LoadIdentityIfAny(const std::string& folder, Holder holder);

}  // namespace oneflow
