// `oneflow certs`: who may be part of a cluster, and who may use it.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "tools/cli/commands.h"
#include "tools/security/certificates.h"

namespace oneflow {

absl::Status CertsInitCommand(const std::string& folder, const CertificateOptions& options) {
  OF_RETURN_IF_ERROR(MakeCertificates(folder, options));
  OF_ASSIGN_OR_RETURN(const std::string made, DescribeCertificates(folder));
  std::cout << made << "\n"
            << folder << "/cluster goes to the machines of the scheduler and the daemons, for their --tls\n"
            << folder << "/user    goes to whoever uses the cluster, for the --tls of all other commands\n"
            << folder << "/ca      goes nowhere: with its key anyone can make others\n";
  return absl::OkStatus();
}

absl::Status CertsShowCommand(const std::string& folder) {
  OF_ASSIGN_OR_RETURN(const std::string text, DescribeCertificates(folder));
  std::cout << text;
  return absl::OkStatus();
}

}  // namespace oneflow
