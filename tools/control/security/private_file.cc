#include "tools/control/security/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor/output_file.h"

namespace oneflow {
namespace {

absl::Status FileError(const std::string& path, absl::string_view doing) {
  return absl::Status(errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable,
                      absl::StrCat("'", path, "': cannot ", doing, ": ", std::strerror(errno)));
}

absl::Status WriteAll(int fd, const std::string& path, absl::string_view contents) {
  while (!contents.empty()) {
    const ssize_t wrote = write(fd, contents.data(), contents.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return FileError(path, "write");
    contents.remove_prefix(wrote);
  }
  return fsync(fd) == 0 ? absl::OkStatus() : FileError(path, "write");
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path) {
  std::string contents;
  char piece[4096];
  while (true) {
    const ssize_t got = read(fd, piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, "read");
    if (got == 0) return contents;
    contents.append(piece, got);
  }
}

absl::StatusOr<std::string> ReadFileOf(const std::string& path, bool is_private) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(path, "read");
  struct stat info = {};
  const bool known = fstat(fd, &info) == 0;
  absl::StatusOr<std::string> contents = known ? ReadAll(fd, path) : FileError(path, "read");
  close(fd);
  if (!contents.ok() || !is_private || (info.st_mode & 0077) == 0) return contents;
  return absl::FailedPreconditionError(absl::StrCat("'", path, "' has mode ",
                                                    absl::StrFormat("%04o", info.st_mode & 07777),
                                                    ", so that others can use it: 'chmod 600' it"));
}

}  // namespace

absl::Status ReplaceFile(const std::string& path, absl::string_view contents, int mode) {
  OF_ASSIGN_OR_RETURN(const std::string target, FileToReplace(path));
  const std::string partial = absl::StrCat(target, ".", getpid(), ".partial");
  const int fd = open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return FileError(partial, "write");
  absl::Status written = WriteAll(fd, partial, contents);
  close(fd);
  if (written.ok() && std::rename(partial.c_str(), target.c_str()) != 0) written = FileError(path, "write");
  if (!written.ok()) unlink(partial.c_str());
  return written;
}

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path) { return ReadFileOf(path, true); }
absl::StatusOr<std::string> ReadPublicFile(const std::string& path) { return ReadFileOf(path, false); }

}  // namespace oneflow
