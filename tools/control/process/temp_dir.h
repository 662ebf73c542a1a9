// A directory of our own under $TMPDIR (or /tmp), removed with all it holds at the end of its scope.
//
// A process that is killed removes nothing, so whoever makes the next directory of the same prefix sweeps: it removes
// those of its user whose maker is dead. A maker holds a lock on its directory, which the system gives up with it, and
// leaves a mark in it that says where it ran. Without the mark nothing is removed, nor where another machine made it:
// some file systems know the locks of one machine only.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "oneflow_core/status.h"

namespace oneflow {

class TempDir {
 public:
  // The path is $TMPDIR/`prefix`-XXXXXX. Sweeps first. Fails as mkdtemp does, naming the path.
  static absl::StatusOr<std::unique_ptr<TempDir>> Make(const std::string& prefix);
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  TempDir(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  const std::string path_;
  const int lock_;  // the directory, opened
};

}  // namespace oneflow
