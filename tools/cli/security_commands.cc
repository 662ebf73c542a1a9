// `oneflow certs` and `oneflow token`: who may be part of a cluster, and who may use it, for what.
#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "tools/cli/commands.h"
#include "tools/cli/report.h"
#include "tools/control/security/certificates.h"
#include "tools/control/security/tokens.h"

namespace oneflow {
namespace {

absl::Status InitCerts(const std::string& folder, const CertificateOptions& options) {
  OF_RETURN_IF_ERROR(MakeCertificates(folder, options));
  OF_ASSIGN_OR_RETURN(const std::string made, DescribeCertificates(folder));
  std::cout << made << "\n"
            << folder << "/cluster goes to the machines of the scheduler and the daemons, for their --tls\n"
            << folder << "/user    goes to whoever uses the cluster, for the --tls of all other commands\n"
            << folder << "/ca      goes nowhere: with its key anyone can make others\n";
  return absl::OkStatus();
}

absl::Status ShowCerts(const std::string& folder) {
  OF_ASSIGN_OR_RETURN(const std::string text, DescribeCertificates(folder));
  std::cout << text;
  return absl::OkStatus();
}

struct TokenArguments {
  std::string file, name;
  std::string role;
};

// Prints the token, once.
absl::Status AddAndPrintToken(const TokenArguments& arguments) {
  OF_ASSIGN_OR_RETURN_AT(const UserRole role, ParseUserRole(arguments.role), "--role");
  OF_ASSIGN_OR_RETURN(const std::string token, AddToken(arguments.file, arguments.name, role));
  std::cout << token << "\n";
  if (isatty(STDOUT_FILENO) != 0) {
    std::cerr << "this is shown once: '" << arguments.name << "' keeps it in ~/.config/oneflow/token (mode 0600)\n";
  }
  return absl::OkStatus();
}

absl::Status ListTokens(const std::string& file) {
  OF_ASSIGN_OR_RETURN(const std::vector<TokenEntry> entries, ReadTokens(file));
  for (const TokenEntry& entry : entries) std::cout << entry.name << " " << UserRoleName(entry.role) << "\n";
  return absl::OkStatus();
}

RunFunction DeclareInit(CLI::App& app, ParsedArguments& arguments) {
  std::string& certs_folder = arguments.New<std::string>();
  CertificateOptions& certificates = arguments.New<CertificateOptions>();
  app.add_option("folder", certs_folder, "where; one that has a CA keeps it")->required();
  app.add_option("--host", certificates.hosts, "name or address of a machine of the cluster; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--days", certificates.days, "how long they are good")
      ->capture_default_str()
      ->check(CLI::Range(1, 3650));
  return [&certs_folder, &certificates] { return Report(InitCerts(certs_folder, certificates)); };
}

RunFunction DeclareShowCertificates(CLI::App& app, ParsedArguments& arguments) {
  std::string& folder = arguments.New<std::string>();
  app.add_option("folder", folder, "of certificates, or of such folders")->required();
  return [&folder] { return Report(ShowCerts(folder)); };
}

RunFunction DeclareAdd(CLI::App& app, ParsedArguments& arguments) {
  TokenArguments& tokens = arguments.New<TokenArguments>();
  app.add_option("file", tokens.file, "as of `scheduler --tokens`; made if it is not there")->required();
  app.add_option("name", tokens.name, "whose jobs will be theirs")->required();
  app.add_option("--role", tokens.role, "read: look; submit: and submit, and cancel and retry one's own; admin: all")
      ->required()
      ->check(CLI::IsMember({"read", "submit", "admin"}));
  return [&tokens] { return Report(AddAndPrintToken(tokens)); };
}

RunFunction DeclareRemove(CLI::App& app, ParsedArguments& arguments) {
  TokenArguments& tokens = arguments.New<TokenArguments>();
  app.add_option("file", tokens.file, "as of `scheduler --tokens`")->required();
  app.add_option("name", tokens.name, "of the user")->required();
  return [&tokens] { return Report(RemoveToken(tokens.file, tokens.name)); };
}

RunFunction DeclareTokens(CLI::App& app, ParsedArguments& arguments) {
  std::string& file = arguments.New<std::string>();
  app.add_option("file", file, "as of `scheduler --tokens`")->required();
  return [&file] { return Report(ListTokens(file)); };
}

}  // namespace

std::vector<Command> SecurityCommands() {
  return {
      Group("certs", "certificates of a cluster and of its users",
            {
                {"init", "make a CA, and a certificate each for the cluster and its users", DeclareInit},
                {"show", "say whose the certificates of a folder are, and when they end", DeclareShowCertificates},
            }),
      Group("token", "who may ask a scheduler what",
            {
                {"add", "make a token for a user, and print it", DeclareAdd},
                {"remove", "refuse a user's token from now on", DeclareRemove},
                {"ls", "list names and roles", DeclareTokens},
            }),
  };
}

}  // namespace oneflow
