#include "tools/control/process/write_file.h"

#include "absl/strings/str_cat.h"
#include "actor/output_file.h"

namespace oneflow {

absl::Status WriteFile(absl::string_view what, const std::string& path, absl::string_view contents) {
  const absl::Status written = WriteOutput(path, contents);
  return written.ok() ? written : absl::Status(written.code(), absl::StrCat(what, " ", written.message()));
}

}  // namespace oneflow
