#include "tools/process/temp_dir.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace oneflow {

absl::StatusOr<std::unique_ptr<TempDir>> TempDir::Make(const std::string& prefix) {
  const char* parent = getenv("TMPDIR");
  std::string path = absl::StrCat(parent == nullptr || *parent == '\0' ? "/tmp" : parent, "/", prefix, "-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make directory '", path, "'"));
  }
  return std::unique_ptr<TempDir>(new TempDir(std::move(path)));
}

TempDir::~TempDir() {
  std::error_code ignored;  // nobody is left to be told
  std::filesystem::remove_all(path_, ignored);
  rmdir(path_.c_str());  // it begins with removing a file, which is not allowed where a daemon is confined
}

}  // namespace oneflow
