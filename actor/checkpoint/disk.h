// Files and names that are on the disk when a call returns, and errors with the disk's reason.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

// ResourceExhausted if there is no room, Unavailable otherwise: "'PATH': cannot write: No space left on device".
absl::Status DiskError(absl::string_view doing, const std::string& path, int error);

// A file that is written from its beginning to its end.
class DiskFile {
 public:
  // Creates or truncates it. Errors of all calls: DiskError().
  static absl::StatusOr<DiskFile> Create(const std::string& path);
  ~DiskFile();
  DiskFile(DiskFile&& other) noexcept;
  DiskFile& operator=(DiskFile&&) = delete;

  absl::Status Write(const void* data, size_t num_bytes);
  // Returns when everything is on the disk.
  absl::Status Close();

 private:
  DiskFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
};

// Writes all bytes at an offset of an open file. Errors: DiskError() of `path`.
absl::Status WriteAt(int fd, const std::string& path, int64_t offset, const void* data, int64_t num_bytes);

// All of `bytes` under this name, or nothing; on the disk with its name.
absl::Status WriteWholeFile(const std::string& path, const std::string& bytes);
// On the disk under the new name, in place of a file that may have had it.
absl::Status Rename(const std::string& from, const std::string& to);
// With all that is in it. OK if there is none.
absl::Status RemoveFolder(const std::string& folder);
// With those above it. OK if it is there.
absl::Status MakeFolder(const std::string& folder);

}  // namespace oneflow
