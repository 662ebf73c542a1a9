// Writes a text file, compressed or plain.
#pragma once

#include <zlib.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

class GzipWriter {
 public:
  // Unavailable if the file cannot be made.
  static absl::StatusOr<GzipWriter> Create(const std::string& path, bool compressed);

  // Close() reports errors.
  void Write(absl::string_view text);
  // Unavailable if the disk refused anything.
  absl::Status Close();

 private:
  struct Closer {
    void operator()(gzFile file) const { gzclose(file); }
  };
  explicit GzipWriter(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::unique_ptr<gzFile_s, Closer> file_;
  bool failed_ = false;
};

}  // namespace oneflow
