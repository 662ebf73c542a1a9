// A directory of our own under $TMPDIR (or /tmp), removed with all it holds at the end of its scope.
#pragma once

#include <memory>
#include <string>

#include "oneflow_core/status.h"

namespace oneflow {

class TempDir {
 public:
  // The path is $TMPDIR/`prefix`-XXXXXX. Fails as mkdtemp does, naming the path.
  static absl::StatusOr<std::unique_ptr<TempDir>> Make(const std::string& prefix);
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TempDir(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace oneflow
