#include "kernels/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

namespace oneflow {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kReserve = 64 << 20;  // for page tables, libraries and threads: not ours to fill
constexpr size_t kStep = 256 << 20;     // between two looks others may have taken some too
constexpr size_t kSmall = 1 << 20;      // is not looked for: the reserve has it, and a look costs more than the pages

// The number in a file that holds only one ("max" is none), `otherwise` if there is none.
int64_t NumberIn(const std::string& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : otherwise;
}

// The number behind a word at the beginning of a line, 0 if there is none.
int64_t NumberAfter(const std::string& word, const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    int64_t number = 0;
    if (words >> first >> number && first == word) return number;
  }
  return 0;
}

// What the group in `folder` may take in all.
int64_t LimitIn(const std::string& folder, const char* limit) { return NumberIn(folder + limit, kUnlimited); }

// What it may still take. Cached files count as used there, but give way.
int64_t LeftIn(const std::string& folder, const char* limit, const char* used, const char* cached) {
  const int64_t most = LimitIn(folder, limit);
  if (most == kUnlimited) return kUnlimited;
  return most - NumberIn(folder + used, 0) + NumberAfter(cached, folder + "/memory.stat");
}

// The least that `group` and the groups around it may take.
template <typename Left>
int64_t LeastUpwards(const std::string& root, std::string group, const Left& left) {
  int64_t least = left(root);
  for (; group.size() > 1; group.resize(group.rfind('/'))) least = std::min(least, left(root + group));
  return least;
}

// The least of any control group around this process, by the version of its hierarchy.
template <typename Version1, typename Version2>
int64_t LeastOfGroups(const HostFiles& files, const Version1& version1, const Version2& version2) {
  int64_t least = kUnlimited;
  std::ifstream groups(files.proc + "/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/some/group" of version 1, "0::/some/group" of 2
    const size_t group = line.find('/');
    if (group == std::string::npos) continue;
    const bool is_version1 = line.find(":memory:") < group, is_version2 = line.rfind("0::", 0) == 0;
    if (is_version1) least = std::min(least, LeastUpwards(files.cgroups + "/memory", line.substr(group), version1));
    if (is_version2) least = std::min(least, LeastUpwards(files.cgroups, line.substr(group), version2));
  }
  return least;
}

int64_t LeftInGroups(const HostFiles& files) {
  return LeastOfGroups(
      files,
      [](const std::string& folder) {
        return LeftIn(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file");
      },
      [](const std::string& folder) { return LeftIn(folder, "/memory.max", "/memory.current", "inactive_file"); });
}

int64_t LimitOfGroups(const HostFiles& files) {
  return LeastOfGroups(
      files, [](const std::string& folder) { return LimitIn(folder, "/memory.limit_in_bytes"); },
      [](const std::string& folder) { return LimitIn(folder, "/memory.max"); });
}

// Of a line of /proc/meminfo.
int64_t HostBytes(const std::string& line, const HostFiles& files) {
  const int64_t kilobytes = NumberAfter(line, files.proc + "/meminfo");
  return kilobytes > 0 ? kilobytes * 1024 : kUnlimited;
}

// Kernels before 5.14 do not take pages when asked, but when touched.
void Touch(char* data, size_t num_bytes) {
  const size_t page = sysconf(_SC_PAGESIZE);
  for (size_t i = 0; i < num_bytes; i += page) *static_cast<volatile char*>(data + i) = 0;
}

}  // namespace

int64_t AvailableHostBytes(const HostFiles& files) {
  return std::max<int64_t>(0, std::min(HostBytes("MemAvailable:", files), LeftInGroups(files)));
}

int64_t AllHostBytes(const HostFiles& files) { return std::min(HostBytes("MemTotal:", files), LimitOfGroups(files)); }

bool TakePages(void* data, size_t num_bytes) {
  char* const begin = static_cast<char*>(data);
  for (size_t taken = 0; taken < num_bytes;) {
    const int64_t left = num_bytes <= kSmall ? kReserve : AvailableHostBytes() - kReserve;
    if (left < 0 || static_cast<size_t>(left) < num_bytes - taken) return false;
    const size_t step = std::min(kStep, num_bytes - taken);
    if (madvise(begin + taken, step, MADV_POPULATE_WRITE) != 0) {
      if (errno != EINVAL) return false;
      Touch(begin + taken, step);
    }
    taken += step;
  }
  return true;
}

HostPages::HostPages(size_t num_bytes) : num_bytes_(std::max<size_t>(num_bytes, 1)) {
  void* const data = mmap(nullptr, num_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return;
  madvise(data, num_bytes_, MADV_HUGEPAGE);  // a wish: without it everything works on small pages
  if (TakePages(data, num_bytes_)) {
    data_ = static_cast<char*>(data);
  } else {
    munmap(data, num_bytes_);
  }
}

HostPages::~HostPages() {
  if (data_ != nullptr) munmap(data_, num_bytes_);
}

HostPages::HostPages(HostPages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), num_bytes_(other.num_bytes_) {}

HostPages& HostPages::operator=(HostPages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(num_bytes_, other.num_bytes_);
  return *this;
}

}  // namespace oneflow
