#include "tools/control/security/tokens.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tools/control/security/private_file.h"

namespace oneflow {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr size_t kMostUserBytes = 64;
constexpr std::pair<UserRole, const char*> kRoles[] = {
    {UserRole::kRead, "read"}, {UserRole::kSubmit, "submit"}, {UserRole::kAdmin, "admin"}};

std::string HexHash(absl::string_view token) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return absl::BytesToHexString(hash);
}

bool IsTokenName(absl::string_view name) {
  return !name.empty() && name.size() <= kMostUserBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '@';
  });
}

absl::StatusOr<TokenEntry> ParseEntry(absl::string_view line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (words.size() != 3 || !IsTokenName(words[0]) || words[2].size() != 2 * SHA256_DIGEST_LENGTH) {
    return absl::InvalidArgumentError("it is not a name, a role and a hash");
  }
  OF_ASSIGN_OR_RETURN(const UserRole role, ParseUserRole(words[1]));
  return TokenEntry{.name = words[0], .role = role, .hash = words[2]};
}

absl::Status WriteTokens(const std::string& file, const std::vector<TokenEntry>& entries) {
  std::string text = "# who may use the scheduler: name, role, SHA-256 of the token\n";
  for (const TokenEntry& entry : entries) {
    absl::StrAppend(&text, entry.name, " ", UserRoleName(entry.role), " ", entry.hash, "\n");
  }
  return ReplaceFile(file, text, 0600);
}

auto Named(std::vector<TokenEntry>& entries, const std::string& name) {
  return std::find_if(entries.begin(), entries.end(), [&](const TokenEntry& entry) { return entry.name == name; });
}

// "" if there is no such folder.
std::string OwnTokenFile() {
  if (const char* const config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && *config != '\0') {
    return absl::StrCat(config, "/oneflow/token");
  }
  const char* const home = std::getenv("HOME");
  return home == nullptr ? "" : absl::StrCat(home, "/.config/oneflow/token");
}

absl::StatusOr<std::string> CheckToken(absl::string_view text, absl::string_view where) {
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  if (std::all_of(token.begin(), token.end(), absl::ascii_isxdigit) && token.size() == 2 * kTokenBytes) {
    return std::string(token);
  }
  return absl::InvalidArgumentError(absl::StrCat(where, ": it has ", token.size(), " characters; a token has ",
                                                 2 * kTokenBytes, ", all of them hex digits"));
}

}  // namespace

std::string UserRoleName(UserRole role) {
  for (const auto& [known, name] : kRoles) {
    if (known == role) return name;
  }
  return "?";
}

absl::StatusOr<UserRole> ParseUserRole(absl::string_view name) {
  for (const auto& [role, known] : kRoles) {
    if (name == known) return role;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no role; there are 'read', 'submit' and 'admin'"));
}

absl::StatusOr<std::vector<TokenEntry>> ReadTokens(const std::string& file) {
  OF_ASSIGN_OR_RETURN_AT(const std::string text, ReadPrivateFile(file), "tokens");
  std::vector<TokenEntry> entries;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    OF_ASSIGN_OR_RETURN_AT(TokenEntry entry, ParseEntry(line), absl::StrCat("tokens '", file, "': line ", number));
    entries.push_back(std::move(entry));
  }
  return entries;
}

absl::StatusOr<std::string> AddToken(const std::string& file, const std::string& name, UserRole role) {
  if (!IsTokenName(name)) {
    return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(name), "' is no name: it may have up to ",
                                                   kMostUserBytes, " letters, digits and any of -_.@"));
  }
  absl::StatusOr<std::vector<TokenEntry>> entries = ReadTokens(file);
  if (absl::IsNotFound(entries.status())) entries = std::vector<TokenEntry>();
  if (!entries.ok()) return entries.status();
  if (Named(*entries, name) != entries->end()) {
    return absl::AlreadyExistsError(absl::StrCat("'", file, "' has a token of '", name, "': remove it first"));
  }
  std::string random(kTokenBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), kTokenBytes) != 1) {
    return absl::ResourceExhaustedError("there are no random bytes");
  }
  std::string token = absl::BytesToHexString(random);
  entries->push_back({.name = name, .role = role, .hash = HexHash(token)});
  OF_RETURN_IF_ERROR(WriteTokens(file, *entries));
  return token;
}

absl::Status RemoveToken(const std::string& file, const std::string& name) {
  OF_ASSIGN_OR_RETURN(std::vector<TokenEntry> entries, ReadTokens(file));
  const auto found = Named(entries, name);
  if (found == entries.end()) return absl::NotFoundError(absl::StrCat("'", file, "' has no token of '", name, "'"));
  entries.erase(found);
  return WriteTokens(file, entries);
}

absl::Status TokenFile::Refresh() {
  struct stat info = {};
  const bool is_there = stat(path_.c_str(), &info) == 0;
  const std::string version = absl::StrCat(is_there, " ", info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec, ".",
                                           info.st_mtim.tv_nsec, " ", info.st_mode);
  if (version == version_) return absl::OkStatus();
  version_.clear();
  OF_ASSIGN_OR_RETURN(entries_, ReadTokens(path_));
  version_ = version;
  return absl::OkStatus();
}

absl::StatusOr<TokenEntry> TokenFile::Find(absl::string_view token) {
  const std::string hash = HexHash(token);
  absl::MutexLock lock(&mu_);
  OF_RETURN_IF_ERROR(Refresh());
  const TokenEntry* found = nullptr;
  for (const TokenEntry& entry : entries_) {  // all of them
    if (CRYPTO_memcmp(entry.hash.data(), hash.data(), hash.size()) == 0) found = &entry;
  }
  if (found != nullptr) return *found;
  return absl::UnauthenticatedError("the caller's token is not known here");
}

absl::StatusOr<std::string> OwnToken() {
  if (const char* const said = std::getenv("ONEFLOW_TOKEN"); said != nullptr && *said != '\0') {
    return CheckToken(said, "ONEFLOW_TOKEN");
  }
  const std::string file = OwnTokenFile();
  const absl::StatusOr<std::string> kept = file.empty() ? absl::NotFoundError("") : ReadPrivateFile(file);
  if (absl::IsNotFound(kept.status())) return std::string();
  if (!kept.ok()) return kept.status();
  return CheckToken(*kept, absl::StrCat("'", file, "'"));
}

}  // namespace oneflow
