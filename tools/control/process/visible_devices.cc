#include "tools/control/process/visible_devices.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace oneflow {

std::string VisibleDevices(const std::vector<int>& devices) {
  const char* const ours = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::vector<std::string> visible = absl::StrSplit(ours == nullptr ? "" : ours, ',', absl::SkipEmpty());
  std::vector<std::string> names;
  for (const int device : devices) {
    if (ours == nullptr) {
      names.push_back(absl::StrCat(device));
    } else if (device < static_cast<int>(visible.size())) {
      names.push_back(visible[device]);
    }
  }
  return absl::StrCat("CUDA_VISIBLE_DEVICES=", absl::StrJoin(names, ","));
}

}  // namespace oneflow
