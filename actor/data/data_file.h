// Whole data files in memory: plain files are mapped read-only (processes of one host share the pages), gzip files are
// inflated.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/status.h"

namespace oneflow {

// The bytes of one file. Immutable, movable; the bytes live as long as the object.
class DataFile {
 public:
  // NotFound if there is no such file, InvalidArgument if it is no regular file or its gzip stream is damaged.
  static absl::StatusOr<DataFile> Open(const std::string& path);

  DataFile() = default;  // no bytes
  DataFile(DataFile&&) noexcept = default;
  DataFile& operator=(DataFile&&) noexcept = default;

  absl::Span<const uint8_t> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  absl::Span<const uint8_t> bytes_;
  std::shared_ptr<const void> memory_;  // the mapping or the inflated vector behind bytes_
};

// "data file '/x/y'": how errors name a file.
std::string DataFileWhere(const std::string& path);

}  // namespace oneflow
