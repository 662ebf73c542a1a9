// Host memory that is there once it is given. Linux maps more than it has, and ends a process that touches too much of
// it; what our devices and shared zones give is taken at once instead, as far as the host has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace oneflow {

// Where the system tells about itself; tests bring their own.
struct HostFiles {
  std::string proc = "/proc";
  std::string cgroups = "/sys/fs/cgroup";
};

// Bytes that this process could take now: what the host has left, or any control group around the process, if that is
// less. The largest number where the system does not say.
int64_t AvailableHostBytes(const HostFiles& files = {});

// Bytes that processes like this one may take in all: the host's memory, or what a control group around the process may
// have, if that is less. The largest number where the system does not say.
int64_t AllHostBytes(const HostFiles& files = {});

// Takes the pages of a writable mapping that nobody has touched yet. False if the host has less: then at most a part is
// taken, and the mapping is to be given back.
bool TakePages(void* data, size_t num_bytes);

// Memory that is taken: zero, page-aligned, in huge pages where the system gives them.
class HostPages {
 public:
  HostPages() = default;
  // Holds nothing if the host has less.
  explicit HostPages(size_t num_bytes);
  ~HostPages();
  HostPages(HostPages&& other) noexcept;
  HostPages& operator=(HostPages&& other) noexcept;

  char* data() const { return data_; }  // null if it holds nothing

 private:
  char* data_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace oneflow
