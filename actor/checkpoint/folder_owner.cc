#include "actor/checkpoint/folder_owner.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "actor/checkpoint/disk.h"

namespace oneflow {
namespace {

constexpr char kName[] = "/.owner";
constexpr absl::Duration kPause = absl::Milliseconds(50);  // between two tries for a lock

// The contents of the file, one field a line.
struct Owner {
  FolderOwner::Who who;
  std::string place;  // "process 12 on host 'n3', since 2026-11-01 10:00:00"

  std::string ToString() const { return absl::StrCat("job '", who.job, "' (", place, ")"); }
};

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string TextOf(const FolderOwner::Who& who) {
  const std::string since = absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::Now(), absl::LocalTimeZone());
  return absl::StrFormat("%x\n%d\nprocess %d on host '%s', since %s\n%s\n", who.run, who.attempt, getpid(), HostName(),
                         since, who.job);
}

// Of an open file; with the name "" if it says nothing.
Owner Read(int fd) {
  char text[4096];
  const ssize_t size = pread(fd, text, sizeof(text), 0);
  const std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(text, size > 0 ? static_cast<size_t>(size) : 0), absl::MaxSplits('\n', 3));
  Owner owner;
  if (lines.size() < 4 || !absl::SimpleHexAtoi(lines[0], &owner.who.run) ||
      !absl::SimpleAtoi(lines[1], &owner.who.attempt)) {
    return owner;
  }
  owner.place = lines[2];
  owner.who.job = std::string(absl::StripSuffix(lines[3], "\n"));
  return owner;
}

// Whether `path` still leads to the open file.
bool IsAt(int fd, const std::string& path) {
  struct stat opened, named;
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

absl::Status Write(int fd, const std::string& path, const std::string& text) {
  if (ftruncate(fd, 0) != 0) return DiskError("write", path, errno);
  return WriteAt(fd, path, 0, text.data(), static_cast<int64_t>(text.size()));
}

enum class Lock { kTaken, kHeld, kNone };  // here, by somebody else, not to be had on this file system

Lock TryLock(int fd) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return Lock::kTaken;
  return errno == EWOULDBLOCK ? Lock::kHeld : Lock::kNone;
}

// Our own file, locked, in place of the one that another attempt of this job holds.
absl::StatusOr<int> Replace(const std::string& path, const std::string& text) {
  const std::string fresh = absl::StrFormat("%s-%d-%x", path, getpid(), absl::ToUnixNanos(absl::Now()));
  const int fd = open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return DiskError("write", fresh, errno);
  absl::Status status = TryLock(fd) == Lock::kHeld ? absl::UnavailableError(absl::StrCat("'", fresh, "' is locked"))
                                                   : Write(fd, fresh, text);
  if (status.ok()) status = Rename(fresh, path);
  if (status.ok()) return fd;
  unlink(fresh.c_str());
  close(fd);
  return status;
}

bool IsEarlier(const FolderOwner::Who& owner, const FolderOwner::Who& who) {
  return owner.run != 0 && owner.run == who.run && owner.attempt < who.attempt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderOwner>> FolderOwner::Take(const std::string& folder, const Who& who,
                                                               absl::Duration patience) {
  const std::string path = absl::StrCat(folder, kName);
  const absl::Time deadline = absl::Now() + patience;
  while (true) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return DiskError("write", path, errno);
    const Lock lock = TryLock(fd);
    const Owner owner = Read(fd);
    if (lock != Lock::kHeld) {
      if (!IsAt(fd, path)) {  // it was released, or replaced, between the two calls
        close(fd);
        continue;
      }
      std::string remark;
      if (lock == Lock::kNone) {
        remark = absl::StrCat("'", folder, "' has no file locks: nothing keeps two jobs from writing there");
      } else if (!owner.who.job.empty()) {
        remark = absl::StrCat("'", folder, "' is taken over from ", owner.ToString(), ", which is dead");
      }
      auto taken = absl::WrapUnique(new FolderOwner(path, fd, who, std::move(remark)));
      OF_RETURN_IF_ERROR(Write(fd, path, TextOf(who)));
      return taken;
    }
    close(fd);
    const bool earlier = IsEarlier(owner.who, who);
    if (!earlier && !owner.who.job.empty()) {
      return absl::FailedPreconditionError(absl::StrCat("'", folder, "' belongs to ", owner.ToString(),
                                                        ", which runs: two jobs would overwrite each other's files"));
    }
    if (absl::Now() >= deadline && !earlier) {
      return absl::UnavailableError(absl::StrCat("'", path, "' is locked by a process that does not say who it is"));
    }
    if (absl::Now() >= deadline) {
      OF_ASSIGN_OR_RETURN(const int replaced, Replace(path, TextOf(who)));
      return absl::WrapUnique(
          new FolderOwner(path, replaced, who,
                          absl::StrCat("'", folder, "' is taken over from attempt ", owner.who.attempt,
                                       " of this job, which may still run on a lost host")));
    }
    absl::SleepFor(kPause);
  }
}

FolderOwner::~FolderOwner() {
  if (IsAt(fd_, path_)) unlink(path_.c_str());
  close(fd_);
}

absl::Status FolderOwner::Check() {
  if (IsAt(fd_, path_)) return absl::OkStatus();
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    OF_ASSIGN_OR_RETURN(const int again, Replace(path_, TextOf(who_)));
    close(std::exchange(fd_, again));
    return absl::OkStatus();
  }
  const Owner owner = fd < 0 ? Owner() : Read(fd);
  if (fd >= 0) close(fd);
  return absl::FailedPreconditionError(absl::StrCat("'", path_, "' is no longer this job's, but that of ",
                                                    owner.who.job.empty() ? "another" : owner.ToString()));
}

}  // namespace oneflow
