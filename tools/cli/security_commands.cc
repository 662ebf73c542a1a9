// `oneflow certs` and `oneflow token`: who may be part of a cluster, and who may use it, for what.
#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "tools/cli/commands.h"
#include "tools/control/security/certificates.h"
#include "tools/control/security/tokens.h"

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

absl::Status TokenAddCommand(const TokenArguments& arguments) {
  OF_ASSIGN_OR_RETURN_AT(const UserRole role, ParseUserRole(arguments.role), "--role");
  OF_ASSIGN_OR_RETURN(const std::string token, AddToken(arguments.file, arguments.name, role));
  std::cout << token << "\n";
  if (isatty(STDOUT_FILENO) != 0) {
    std::cerr << "this is shown once: '" << arguments.name << "' keeps it in ~/.config/oneflow/token (mode 0600)\n";
  }
  return absl::OkStatus();
}

absl::Status TokenRemoveCommand(const TokenArguments& arguments) { return RemoveToken(arguments.file, arguments.name); }

absl::Status TokenListCommand(const std::string& file) {
  OF_ASSIGN_OR_RETURN(const std::vector<TokenEntry> entries, ReadTokens(file));
  for (const TokenEntry& entry : entries) std::cout << entry.name << " " << UserRoleName(entry.role) << "\n";
  return absl::OkStatus();
}

}  // namespace oneflow
