#include "tools/cli/metrics_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/output_file.h"
#include "nlohmann/json.hpp"
#include "tools/job/outputs.h"

namespace oneflow {
namespace {

absl::Status CannotWrite(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("--metrics ", path, ": cannot write: ", std::strerror(errno)));
}

// A run holds the lock of its file for as long as it writes; the system gives it up with the process.
absl::Status Lock(int fd, const std::string& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return absl::OkStatus();  // some disks have none
  return absl::FailedPreconditionError(absl::StrCat("--metrics ", path, ": another run writes it now"));
}

// "m.jsonl.1", or the first number that is free.
std::string FreeName(const std::string& path) {
  for (int number = 1;; ++number) {
    std::string name = absl::StrCat(path, ".", number);
    struct stat info;
    if (lstat(name.c_str(), &info) != 0) return name;
  }
}

// The step of a metrics line; 0 if it is none.
int64_t StepOf(absl::string_view line) {
  const nlohmann::json json = nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return 0;
  return json["step"].get<int64_t>();
}

}  // namespace

size_t BytesBefore(int64_t step, absl::string_view lines) {
  size_t kept = 0;
  while (kept < lines.size()) {
    const size_t end = lines.find('\n', kept);
    if (end == lines.npos) break;
    const int64_t of = StepOf(lines.substr(kept, end - kept));
    if (of <= 0 || of >= step) break;
    kept = end + 1;
  }
  return kept;
}

absl::Status MetricsFile::Check(const std::string& path) {
  OF_RETURN_IF_ERROR_AT(CheckWritable(path, /*may_be_stream=*/true), "--metrics");
  OF_ASSIGN_OR_RETURN(const OutputPlace place, FindOutput(path));
  if (place.is_stream) return absl::OkStatus();
  const int fd = open(place.path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? absl::OkStatus() : CannotWrite(path);
  absl::Status locked = Lock(fd, path);
  close(fd);
  return locked;
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status MetricsFile::OpenFile(const std::string& target, int64_t first_step) {
  fd_ = open(target.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) return CannotWrite(path_);
  OF_RETURN_IF_ERROR(Lock(fd_, path_));
  std::ifstream stream(target, std::ios::binary);
  const std::string former((std::istreambuf_iterator<char>(stream)), {});
  const size_t kept = goes_on_ ? BytesBefore(first_step, former) : 0;
  if (kept > 0 || former.empty()) {
    if (kept == former.size()) return absl::OkStatus();
    say_(absl::StrCat("--metrics ", path_, ": goes on before step ", first_step, "; ",
                      std::count(former.begin() + static_cast<ptrdiff_t>(kept), former.end(), '\n'),
                      " lines from there on are cut off"));
    return ftruncate(fd_, static_cast<off_t>(kept)) == 0 ? absl::OkStatus() : CannotWrite(path_);
  }
  const std::string aside = FreeName(target);
  if (std::rename(target.c_str(), aside.c_str()) != 0) return CannotWrite(path_);
  close(fd_);
  fd_ = open(target.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) return CannotWrite(path_);
  say_(absl::StrCat("--metrics ", path_, ": what a former run wrote there is in ", aside));
  return Lock(fd_, path_);
}

absl::Status MetricsFile::Open(int64_t first_step) {
  OF_ASSIGN_OR_RETURN_AT(const OutputPlace place, FindOutput(path_), "--metrics");
  if (!place.is_stream) return OpenFile(place.path, first_step);
  fd_ = open(place.path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
  return fd_ >= 0 ? absl::OkStatus() : CannotWrite(path_);
}

void MetricsFile::Add(absl::string_view line) {
  if (status_.ok() && fd_ < 0) status_ = Open(StepOf(line));
  const std::string text = absl::StrCat(line, "\n");
  for (absl::string_view rest = text; status_.ok() && !rest.empty();) {
    const ssize_t wrote = write(fd_, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) status_ = CannotWrite(path_);
    if (wrote > 0) rest.remove_prefix(static_cast<size_t>(wrote));
  }
}

absl::Status MetricsFile::Finish(bool finished) {
  if (status_.ok() && fd_ < 0 && finished) {
    const absl::StatusOr<OutputPlace> place = FindOutput(path_);
    if (!place.ok()) {
      status_ = Annotate(place.status(), "--metrics");
    } else if (!place->is_stream) {
      fd_ = open(place->path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
      if (fd_ < 0) status_ = CannotWrite(path_);
    }
  }
  if (fd_ >= 0 && close(std::exchange(fd_, -1)) != 0 && status_.ok()) status_ = CannotWrite(path_);
  return status_;
}

}  // namespace oneflow
