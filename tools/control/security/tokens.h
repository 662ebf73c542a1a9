// Tokens: who a user is to a scheduler, and what they may ask of it.
//
//   read     looks at everything
//   submit   also submits jobs, and cancels and retries its own
//   admin    also those of others, and drains nodes
//
// A scheduler has a file of them, readable by its owner alone, with a line for each: a name, a role and the token's
// SHA-256. A token is 32 random bytes, so that its hash need not be a slow one; it is shown once, to whoever made it.
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Each may do what those before it may.
enum class UserRole { kRead, kSubmit, kAdmin };
std::string UserRoleName(UserRole role);
// InvalidArgument that names all roles.
absl::StatusOr<UserRole> ParseUserRole(absl::string_view name);

struct TokenEntry {
  std::string name;
  UserRole role = UserRole::kRead;
  std::string hash;  // hex
};

// Adds one to the file, which need not be there, and returns it. InvalidArgument if the name has other bytes than
// letters, digits, '-', '_', '.' and '@'; AlreadyExists; errors of ReadTokens().
absl::StatusOr<std::string> AddToken(const std::string& file, const std::string& name, UserRole role);
// NotFound if there is none of this name.
absl::Status RemoveToken(const std::string& file, const std::string& name);
// InvalidArgument with the line that is none; errors of ReadPrivateFile().
absl::StatusOr<std::vector<TokenEntry>> ReadTokens(const std::string& file);

// The file as a scheduler reads it: again when it has changed. Thread-safe.
class TokenFile {
 public:
  explicit TokenFile(std::string path) : path_(std::move(path)) {}

  // Whose the token is. Unauthenticated if nobody's; errors of ReadTokens(), so that nobody is let in by a file that is
  // gone or broken. How long it takes does not tell how much of a token is right.
  absl::StatusOr<TokenEntry> Find(absl::string_view token);

 private:
  absl::Status Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  absl::Mutex mu_;
  std::string version_ ABSL_GUARDED_BY(mu_);  // of the file that was read: its inode, size and time
  std::vector<TokenEntry> entries_ ABSL_GUARDED_BY(mu_);
};

// The token of the user whose process this is: what ONEFLOW_TOKEN says, or else what ~/.config/oneflow/token holds;
// empty if there is neither. FailedPrecondition if others may read the file, InvalidArgument if it is no token.
absl::StatusOr<std::string> OwnToken();

}  // namespace oneflow
