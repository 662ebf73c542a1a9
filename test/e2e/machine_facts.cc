#include "test/e2e/machine_facts.h"

#include <gnu/libc-version.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/cpu/variant.h"
#include "oneapi/dnnl/dnnl.h"

namespace oneflow::e2e {
namespace {

// The first processor's entries of /proc/cpuinfo.
std::map<std::string, std::string> ProcessorInfo() {
  std::map<std::string, std::string> info;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::pair<std::string, std::string> entry = absl::StrSplit(line, absl::MaxSplits(':', 1));
    info[std::string(absl::StripAsciiWhitespace(entry.first))] = std::string(absl::StripAsciiWhitespace(entry.second));
  }
  return info;
}

std::string VectorInstructions(const std::string& flags) {
  std::string wide;
  for (const absl::string_view flag : absl::StrSplit(flags, ' ')) {
    for (const char* family : {"sse4", "avx", "fma", "amx"}) {
      if (absl::StartsWith(flag, family)) absl::StrAppend(&wide, " ", flag);
    }
  }
  return wide;
}

}  // namespace

std::string MachineFacts() {
  std::map<std::string, std::string> cpu = ProcessorInfo();
  const dnnl_version_t* const onednn = dnnl_version();
  return absl::StrCat("# processor: ", cpu["vendor_id"], " family ", cpu["cpu family"], " model ", cpu["model"], "\n",
                      "# instructions:", VectorInstructions(cpu["flags"]), "\n",
                      "# caches: ", sysconf(_SC_LEVEL1_DCACHE_SIZE), " ", sysconf(_SC_LEVEL2_CACHE_SIZE), " ",
                      sysconf(_SC_LEVEL3_CACHE_SIZE), "\n",                    // oneDNN cuts its blocks to them
                      "# cores: ", std::thread::hardware_concurrency(), "\n",  // and its work
                      "# oneDNN: ", onednn->major, ".", onednn->minor, ".", onednn->patch, ", ", "instruction set ",
                      static_cast<int>(dnnl_get_effective_cpu_isa()), "\n",  // which an environment variable may limit
                      "# kernels: ", TheCpuVariant().name, "\n", "# build: ", ONEFLOW_KERNEL_BUILD, ", compiler ",
                      __VERSION__, ", C library ", gnu_get_libc_version(), "\n");
}

}  // namespace oneflow::e2e
