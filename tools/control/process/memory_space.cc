#include "tools/control/process/memory_space.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace oneflow {

std::string MemorySpace() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  if (!boot.empty() && !error) return absl::StrCat(boot, " ", space, " uid:", geteuid());
  return OwnMemorySpace();
}

std::string OwnMemorySpace() {
  std::random_device random;
  return absl::StrCat("alone:", absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

}  // namespace oneflow
