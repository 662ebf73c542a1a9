#include "actor/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "glog/logging.h"
#include "kernels/host_memory.h"

namespace oneflow {
namespace {

std::string SystemError(const char* call) { return absl::StrCat(call, ": ", std::strerror(errno)); }

// Of memory of the host, or of a device with its own.
absl::Status OutOfMemory(absl::string_view what, int64_t size, bool of_host) {
  const std::string left = of_host ? absl::StrCat(": the host has ", AvailableHostBytes(), " left") : "";
  return absl::ResourceExhaustedError(absl::StrCat(what, " of ", size, " bytes cannot be taken", left));
}

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Create(int64_t size) {
  const int fd = memfd_create("oneflow-registers", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return absl::ResourceExhaustedError(SystemError("memfd_create"));
  SharedMemory memory(nullptr, size, fd);  // closes the file if we return early
  if (ftruncate(fd, size) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Annotate(OutOfMemory("shared memory", size, /*of_host=*/true), SystemError("ftruncate"));
  }
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return Annotate(OutOfMemory("shared memory", size, /*of_host=*/true), SystemError("mmap"));
  memory.data_ = static_cast<char*>(data);
  if (!TakePages(data, size)) return OutOfMemory("shared memory", size, /*of_host=*/true);
  return memory;
}

absl::StatusOr<SharedMemory> SharedMemory::Map(int pid, int fd, int64_t size, Access access) {
  const std::string path = absl::StrCat("/proc/", pid, "/fd/", fd);
  const bool writes = access == Access::kWrite;
  // On another host these numbers may be any file: a pipe without a writer would block us.
  const int file = open(path.c_str(), (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return absl::UnavailableError(absl::StrCat(path, ": ", SystemError("open")));
  struct stat info = {};
  const int seals = fcntl(file, F_GET_SEALS);
  if (fstat(file, &info) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 || info.st_size != size) {
    close(file);
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": ", info.st_size, " bytes where a sealed memory file of ", size, " was announced"));
  }
  void* data = mmap(nullptr, size, writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
  const std::string error = data == MAP_FAILED ? SystemError("mmap") : "";
  close(file);
  if (data == MAP_FAILED) return absl::ResourceExhaustedError(absl::StrCat(path, ": ", size, " bytes: ", error));
  return SharedMemory(static_cast<char*>(data), size, -1);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_), fd_(std::exchange(other.fd_, -1)) {}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, size_);
  if (fd_ >= 0) close(fd_);
}

absl::Status JobMemory::Allocate(int rank, const pb::Rank& sizes, DeviceContext& device) {
  for (const ZoneKind& kind : kZones) {
    const int64_t bytes = BytesOfZone(sizes, kind.zone);
    if (bytes > 0) OF_RETURN_IF_ERROR(Allocate(kind, bytes, device, ranks_[rank][kind.zone]));
  }
  return absl::OkStatus();
}

absl::Status JobMemory::Allocate(const ZoneKind& kind, int64_t bytes, DeviceContext& device, Zone& zone) {
  if (kind.peers_read && device.host_accessible()) {
    OF_ASSIGN_OR_RETURN(SharedMemory file, SharedMemory::Create(bytes));
    zone.file = std::make_unique<SharedMemory>(std::move(file));
    zone.data = zone.file->data();
    return absl::OkStatus();
  }
  if (kind.in_file) {
    const std::string folder = tier_folder_.empty() ? TierFile::UsualFolder() : tier_folder_;
    std::error_code error;
    std::filesystem::create_directories(folder, error);  // where that fails, the file says why it cannot be made
    OF_ASSIGN_OR_RETURN(zone.disk, TierFile::Create(folder, bytes));
    if (!zone.disk->uses_ring()) {
      LOG(WARNING) << "io_uring is not permitted here: what lies on disk is read and written piece by piece, which is "
                      "slower";
    }
    zone.data = zone.disk->addresses();
    zone.host_may_touch = false;
    return absl::OkStatus();
  }
  zone.host_may_touch = device.host_accessible() || !kind.of_device;
  zone.data = static_cast<char*>(kind.of_device ? device.Allocate(bytes) : device.AllocateOnHost(bytes));
  if (zone.data != nullptr) return absl::OkStatus();
  return OutOfMemory(absl::StrCat(kind.name, " memory"), bytes, zone.host_may_touch);
}

absl::Status JobMemory::MapPeer(int rank, int zone, int pid, int fd, int64_t size) {
  OF_ASSIGN_OR_RETURN(SharedMemory file, SharedMemory::Map(pid, fd, size));
  ranks_[rank][zone].file = std::make_unique<SharedMemory>(std::move(file));
  ranks_[rank][zone].data = ranks_[rank][zone].file->data();
  return absl::OkStatus();
}

}  // namespace oneflow
