#include "actor/checkpoint/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

absl::Status FlushFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return DiskError("open", path, errno);
  const int flushed = fsync(fd);
  const int error = errno;
  close(fd);
  return flushed == 0 ? absl::OkStatus() : DiskError("flush", path, error);
}

}  // namespace

absl::Status DiskError(absl::string_view doing, const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return absl::Status(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
                      absl::StrCat("'", path, "': cannot ", doing, ": ", std::strerror(error)));
}

absl::StatusOr<DiskFile> DiskFile::Create(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return DiskError("write", path, errno);
  return DiskFile(path, fd);
}

DiskFile::DiskFile(DiskFile&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

DiskFile::~DiskFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status DiskFile::Write(const void* data, size_t num_bytes) {
  const char* from = static_cast<const char*>(data);
  while (num_bytes > 0) {
    const ssize_t wrote = write(fd_, from, num_bytes);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return DiskError("write", path_, errno);
    from += wrote;
    num_bytes -= static_cast<size_t>(wrote);
  }
  return absl::OkStatus();
}

absl::Status DiskFile::Close() {
  if (fsync(fd_) != 0) return DiskError("flush", path_, errno);
  return close(std::exchange(fd_, -1)) == 0 ? absl::OkStatus() : DiskError("close", path_, errno);
}

absl::Status WriteAt(int fd, const std::string& path, int64_t offset, const void* data, int64_t num_bytes) {
  const char* from = static_cast<const char*>(data);
  while (num_bytes > 0) {
    const ssize_t wrote = pwrite(fd, from, static_cast<size_t>(num_bytes), offset);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return DiskError("write", path, errno);
    from += wrote;
    offset += wrote;
    num_bytes -= wrote;
  }
  return absl::OkStatus();
}

absl::Status WriteWholeFile(const std::string& path, const std::string& bytes) {
  const std::string partial = absl::StrCat(path, ".partial");
  OF_ASSIGN_OR_RETURN(DiskFile file, DiskFile::Create(partial));
  OF_RETURN_IF_ERROR(file.Write(bytes.data(), bytes.size()));
  OF_RETURN_IF_ERROR(file.Close());
  return Rename(partial, path);
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return DiskError(absl::StrCat("rename to '", to, "'"), from, errno);
  const std::string folder = std::filesystem::path(to).parent_path();
  return FlushFolder(folder.empty() ? "." : folder);
}

absl::Status RemoveFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return error ? DiskError("remove", folder, error.value()) : absl::OkStatus();
}

absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? DiskError("make", folder, error.value()) : absl::OkStatus();
}

}  // namespace oneflow
