#include "actor/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "actor/checkpoint/disk.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as in the kernel

const char* WhatIs(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "no regular file";
}

// "'w', which leads to '/dev/null'".
std::string Named(const std::string& path, const std::string& target) {
  return path == target ? absl::StrCat("'", path, "'") : absl::StrCat("'", path, "', which leads to '", target, "'");
}

// Errors name `path`, although the file has another name while it is written.
absl::Status WriteAll(int fd, const std::string& path, absl::string_view contents) {
  while (!contents.empty()) {
    const ssize_t wrote = write(fd, contents.data(), contents.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return absl::UnavailableError(absl::StrCat("'", path, "': cannot write: ", std::strerror(errno)));
    contents.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

absl::Status WriteTo(const std::string& file, int flags, const std::string& path, absl::string_view contents) {
  const int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, 0666);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("'", path, "': cannot write: ", std::strerror(errno)));
  absl::Status written = WriteAll(fd, path, contents);
  if (close(fd) != 0 && written.ok()) {
    written = absl::UnavailableError(absl::StrCat("'", path, "': cannot write: ", std::strerror(errno)));
  }
  return written;
}

}  // namespace

absl::StatusOr<OutputPlace> FindOutput(const std::string& path) {
  OutputPlace place{path};
  struct stat info = {};
  bool there = false;
  for (int links = 0;; ++links) {
    there = lstat(place.path.c_str(), &info) == 0;
    if (!there && errno != ENOENT && errno != ENOTDIR) {
      return absl::InvalidArgumentError(absl::StrCat(Named(path, place.path), ": ", std::strerror(errno)));
    }
    if (!there || !S_ISLNK(info.st_mode)) break;
    std::error_code error;
    const fs::path link = place.path, folder = fs::canonical(link.has_parent_path() ? link.parent_path() : ".", error);
    if (!error && (folder == "/proc" || absl::StartsWith(folder.string(), "/proc/"))) {
      there = stat(place.path.c_str(), &info) == 0;
      place.is_stream = there && !S_ISDIR(info.st_mode);
      break;
    }
    const fs::path to = error ? fs::path() : fs::read_symlink(link, error);
    if (error || links == kMostLinks) {
      const std::string why = error ? error.message() : "too many links";
      return absl::InvalidArgumentError(absl::StrCat(Named(path, place.path), ": ", why));
    }
    place.path = to.is_absolute() ? to.string() : (folder / to).string();
  }
  if (!there || S_ISREG(info.st_mode) || place.is_stream) return place;
  place.is_stream = S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode);
  if (place.is_stream) return place;
  return absl::InvalidArgumentError(absl::StrCat(Named(path, place.path), ": it is ", WhatIs(info.st_mode)));
}

absl::StatusOr<std::string> FileToReplace(const std::string& path) {
  OF_ASSIGN_OR_RETURN(OutputPlace place, FindOutput(path));
  if (!place.is_stream) return std::move(place.path);
  struct stat info = {};
  const bool known = stat(place.path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  return absl::InvalidArgumentError(absl::StrCat(
      Named(path, place.path), ": it is ", known ? WhatIs(info.st_mode) : "a file that another process has opened",
      ", and must be a regular file, or none yet"));
}

absl::Status ReplaceFileBy(const std::string& partial, const std::string& target) {
  struct stat info = {};
  if (lstat(target.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", target, "': it has become ", S_ISLNK(info.st_mode) ? "a link" : WhatIs(info.st_mode),
                       ", and is left as it is; its new contents are in '", partial, "'"));
    }
    chmod(partial.c_str(), info.st_mode & 07777);  // what refuses that has no permissions to keep
  }
  return Rename(partial, target);
}

absl::Status WriteOutput(const std::string& path, absl::string_view contents) {
  OF_ASSIGN_OR_RETURN(const OutputPlace place, FindOutput(path));
  if (place.is_stream) return WriteTo(place.path, O_APPEND, path, contents);
  const std::string partial = absl::StrCat(place.path, ".partial");  // what a killed process left is taken over
  absl::Status written = WriteTo(partial, O_CREAT | O_TRUNC | O_NOFOLLOW, path, contents);
  if (absl::Status replaced = written.ok() ? ReplaceFileBy(partial, place.path) : written; !replaced.ok()) {
    unlink(partial.c_str());
    return replaced;
  }
  return absl::OkStatus();
}

}  // namespace oneflow
