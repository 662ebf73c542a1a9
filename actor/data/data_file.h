// Data files. Plain files are read by ranges (processes of one host share the system's cache); gzip files are inflated
// into memory, with all members. Files are not mapped: one that is truncated while it is read would be a signal, not an
// error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/status.h"

namespace oneflow {

// One file, as long as it was when it was opened. Any thread may read; copies share it.
class DataFile {
 public:
  // NotFound if there is no such file; InvalidArgument, naming the byte, if it is no regular file or its gzip stream is
  // damaged, cut off, or followed by anything but another member or zeros up to the end. `what` names the file in
  // errors.
  static absl::StatusOr<DataFile> Open(const std::string& path, const std::string& what = "data file");

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // Reads bytes until `to` is full. DataLoss, naming the file, if they cannot be read or are no longer there. REQUIRES:
  // they lie within size().
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> to) const;
  absl::StatusOr<std::vector<uint8_t>> ReadAll() const;

 private:
  class Descriptor;

  std::string Where() const;

  std::string path_, what_;
  int64_t size_ = 0;
  std::shared_ptr<const Descriptor> file_;             // of a plain file
  std::shared_ptr<const std::vector<uint8_t>> bytes_;  // of a gzip file
};

// "data file '/x/y'": how errors name a file.
std::string DataFileWhere(const std::string& path);

}  // namespace oneflow
