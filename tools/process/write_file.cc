#include "tools/process/write_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace oneflow {

absl::Status WriteFile(absl::string_view what, const std::string& path, absl::string_view contents) {
  std::ofstream stream(path, std::ios::binary);
  stream << contents;
  stream.close();
  if (stream) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(what, " '", path, "': cannot write: ", std::strerror(errno)));
}

}  // namespace oneflow
