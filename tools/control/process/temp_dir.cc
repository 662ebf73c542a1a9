#include "tools/control/process/temp_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/control/process/memory_space.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr char kMark[] = ".oneflow-temporary";
constexpr size_t kRandom = 6;  // letters at the end of a name
constexpr int kTries = 100;

std::string Parent() {
  const char* const parent = getenv("TMPDIR");
  return parent == nullptr || *parent == '\0' ? "/tmp" : parent;
}

// What the mark in a directory says; empty if there is none.
std::string MarkIn(int directory) {
  const int fd = openat(directory, kMark, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return "";
  char text[512];
  const ssize_t got = read(fd, text, sizeof(text));
  close(fd);
  return got > 0 ? std::string(text, static_cast<size_t>(got)) : "";
}

bool Mark(int directory) {
  const int fd = openat(directory, kMark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const std::string where = MemorySpace();
  const bool written = write(fd, where.data(), where.size()) == static_cast<ssize_t>(where.size());
  return close(fd) == 0 && written;
}

// A descriptor of a directory that has our mark, is our user's, and whose maker is dead; -1 if it is anything else.
int LockIfDead(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat info = {};
  if (fd >= 0 && fstat(fd, &info) == 0 && info.st_uid == geteuid() && MarkIn(fd) == MemorySpace() &&
      flock(fd, LOCK_EX | LOCK_NB) == 0) {
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

void Sweep(const std::string& parent, const std::string& prefix) {
  const std::string begin = absl::StrCat(prefix, "-");
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.size() != begin.size() + kRandom || !absl::StartsWith(name, begin)) continue;
    const int lock = LockIfDead(it->path().string());
    if (lock < 0) continue;
    std::error_code ignored;  // the next start tries again
    fs::remove_all(it->path(), ignored);
    close(lock);
  }
}

// Not onto one that is there. Some file systems only know how to replace what is empty.
bool Rename(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  return errno == EINVAL && rename(from.c_str(), to.c_str()) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TempDir>> TempDir::Make(const std::string& prefix) {
  const std::string parent = Parent();
  Sweep(parent, prefix);
  const std::string wanted = absl::StrCat(parent, "/", prefix, "-XXXXXX");
  for (int i = 0; i < kTries; ++i) {
    // Nobody sweeps it before it is locked: until then it has another name.
    std::string fresh = absl::StrCat(parent, "/.", prefix, "-XXXXXX");
    if (mkdtemp(fresh.data()) == nullptr) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot make directory '", wanted, "'"));
    }
    const int lock = open(fresh.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // A file system without locks has no sweeping either.
    const bool ready = lock >= 0 && Mark(lock) && (flock(lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
    const std::string path = absl::StrCat(parent, "/", prefix, "-", fresh.substr(fresh.size() - kRandom));
    if (ready && Rename(fresh, path)) {
      return std::unique_ptr<TempDir>(new TempDir(path, lock));
    }
    const int reason = errno;
    if (lock >= 0) close(lock);
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    if (reason != EEXIST) return absl::ErrnoToStatus(reason, absl::StrCat("cannot make directory '", path, "'"));
  }
  return absl::UnavailableError(absl::StrCat("cannot make directory '", wanted, "': too many are there"));
}

TempDir::~TempDir() {
  std::error_code ignored;  // nobody is left to be told
  fs::remove_all(path_, ignored);
  rmdir(path_.c_str());  // it begins with removing a file, which is not allowed where a daemon is confined
  close(lock_);
}

}  // namespace oneflow
