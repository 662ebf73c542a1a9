#include "tools/control/daemon/machine.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr int kNotFound = 127;       // how a command ends that is not there
constexpr size_t kMostSaid = 65536;  // a line for each device

// Of a file with one line; empty if there is none.
std::string LineIn(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

// 0 where the device does not know: a virtual one, or one without a cable.
int64_t Megabits(absl::string_view text) {
  int64_t speed = 0;
  return absl::SimpleAtoi(text, &speed) && speed > 0 ? speed : 0;
}

// Of a port of an InfiniBand device: "200 Gb/sec (4X HDR)".
int64_t MegabitsOfPort(const fs::path& port) {
  const std::vector<std::string> words = absl::StrSplit(LineIn(port / "rate"), ' ');
  double gigabits = 0;
  return absl::SimpleAtod(words[0], &gigabits) && gigabits > 0 && gigabits < 1e6 ? static_cast<int64_t>(gigabits * 1000)
                                                                                 : 0;
}

void AddLink(const fs::path& device, const char* kind, int64_t megabits, std::vector<pb::NetworkLink>& links) {
  pb::NetworkLink& link = links.emplace_back();
  link.set_name(device.filename());
  link.set_kind(kind);
  link.set_mbit_per_s(megabits);
}

// Cards that do RDMA are devices of InfiniBand, whatever their wire is, and most are network devices too.
std::vector<pb::NetworkLink> LinksOf(const fs::path& sys) {
  std::vector<pb::NetworkLink> links;
  for (const fs::path& device : EntriesOf(sys / "class/infiniband")) {
    for (const fs::path& port : EntriesOf(device / "ports")) {
      if (!absl::StrContains(LineIn(port / "state"), "ACTIVE")) continue;
      const bool wire = LineIn(port / "link_layer") == "InfiniBand";
      AddLink(device, wire ? "infiniband" : "roce", MegabitsOfPort(port), links);
    }
  }
  for (const fs::path& device : EntriesOf(sys / "class/net")) {
    std::error_code ignored;
    const bool rdma = fs::exists(device / "device/infiniband", ignored);
    if (rdma || device.filename() == "lo" || LineIn(device / "operstate") != "up") continue;
    AddLink(device, "ethernet", Megabits(LineIn(device / "speed")), links);
  }
  return links;
}

int MemoryNodesOf(const fs::path& sys) {
  int nodes = 0;
  for (const fs::path& entry : EntriesOf(sys / "devices/system/node")) {
    const std::string name = entry.filename();
    int number;
    if (absl::StartsWith(name, "node") && absl::SimpleAtoi(name.substr(4), &number)) ++nodes;
  }
  return std::max(nodes, 1);
}

}  // namespace

MachineFacts LookAtMachine(const MachineFiles& files) {
  MachineFacts facts;
  const int64_t bytes = AllHostBytes(files.host);
  facts.memory_bytes = bytes == std::numeric_limits<int64_t>::max() ? 0 : bytes;
  facts.memory_nodes = MemoryNodesOf(files.sys);
  facts.links = LinksOf(files.sys);
  return facts;
}

absl::StatusOr<CudaDevices> FindCudaDevices() {
  constexpr char kCommand[] = "timeout 20 nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>&1";
  FILE* const pipe = popen(kCommand, "r");
  if (pipe == nullptr) return absl::UnavailableError(absl::StrCat("nvidia-smi: ", std::strerror(errno)));
  std::string said;
  for (int c; (c = std::fgetc(pipe)) != EOF && said.size() < kMostSaid;) said += static_cast<char>(c);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotFound) return CudaDevices();
  absl::StripAsciiWhitespace(&said);
  CudaDevices found;
  for (const absl::string_view line : absl::StrSplit(said, '\n', absl::SkipEmpty())) {
    int64_t mebibytes = 0;
    if (status != 0 || !absl::SimpleAtoi(line, &mebibytes) || mebibytes < 1 || mebibytes > (int64_t{1} << 40)) {
      return absl::UnavailableError(absl::StrCat("nvidia-smi lists no devices, but says '", said, "'"));
    }
    const int64_t bytes = mebibytes << 20;
    found.memory_bytes = found.count == 0 ? bytes : std::min(found.memory_bytes, bytes);
    ++found.count;
  }
  return found;
}

}  // namespace oneflow
