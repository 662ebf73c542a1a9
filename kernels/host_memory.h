// Host memory that is committed when it is allocated. Linux maps more memory than it has, and kills a process that
// touches too much of it. Devices and shared zones touch all pages at once instead, and fail cleanly if the host has
// too little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace oneflow {

// Where Linux publishes its memory figures. Tests pass folders of their own.
struct HostFiles {
  std::string proc = "/proc";
  std::string cgroups = "/sys/fs/cgroup";
};

// Bytes that this process could allocate now: the free memory of the host, or of a control group around the process if
// that is less. The largest number if the system does not say.
int64_t AvailableHostBytes(const HostFiles& files = {});

// Bytes that processes like this one may have in total: the host's memory, or the limit of a control group around the
// process if that is less. The largest number if the system does not say.
int64_t AllHostBytes(const HostFiles& files = {});

// Commits the pages of a writable mapping that nobody has touched yet. False if the host has too little memory; then
// some pages may be committed, and the caller must unmap them.
bool TakePages(void* data, size_t num_bytes);

// Committed memory: zeroed, page-aligned, in huge pages where the system has them.
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
