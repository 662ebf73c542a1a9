// The memory of registers and variables: the zones of each rank (zones.h), laid out by the compiler.
//
//   process 0                           process 1
//   rank 0  private  DeviceContext      rank 1  private  DeviceContext
//           shared   memory file  ◄──── mapped through /proc/PID/fd/FD, read-only
//
// Tiers below a device's memory (oneflow_core/tiers.h) are zones too. Places in a file have addresses without memory
// behind them: they are handed on as others are, and only TierFile reads and writes what they stand for.
//
// A memory file has no name, so nothing remains however a process ends. It is sealed against changes of size, so its
// owner cannot fault a reader. On devices whose memory the host cannot address, all zones are device memory.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actor/tier_file.h"
#include "kernels/device.h"
#include "oneflow_core/status.h"
#include "oneflow_core/zones.h"
#include "proto/program.pb.h"

namespace oneflow {

// A mapped memory file.
class SharedMemory {
 public:
  // A new file of `size` zero bytes, all committed by the host now. ResourceExhausted, with the memory that the host
  // has left, if that is less.
  static absl::StatusOr<SharedMemory> Create(int64_t size);
  enum class Access { kRead, kWrite };
  // Maps file `fd` of process `pid`. Unavailable if that process is gone or not accessible; FailedPrecondition if the
  // file is not a sealed memory file of exactly `size` bytes.
  static absl::StatusOr<SharedMemory> Map(int pid, int fd, int64_t size, Access access = Access::kRead);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) = delete;
  ~SharedMemory();

  char* data() const { return data_; }
  int64_t size() const { return size_; }
  // The file, in the process that created it; -1 in others.
  int fd() const { return fd_; }

 private:
  SharedMemory(char* data, int64_t size, int fd) : data_(data), size_(size), fd_(fd) {}

  char* data_ = nullptr;
  int64_t size_ = 0;
  int fd_ = -1;
};

// The zones of all ranks that this process can address. Filled in while loading, only read afterwards.
class JobMemory {
 public:
  // Files of disk tiers are made in `tier_folder`; empty: in the folder for temporary files ($TMPDIR, else /var/tmp).
  explicit JobMemory(int num_ranks, std::string tier_folder = "")
      : ranks_(num_ranks), tier_folder_(std::move(tier_folder)) {}

  // Allocates the zones of one of our ranks. Host memory is committed at once, so a job that does not fit ends here
  // and not in the middle of a step. ResourceExhausted, with the size and the memory that is left, if there is not
  // enough; as TierFile::Create.
  absl::Status Allocate(int rank, const pb::Rank& sizes, DeviceContext& device);
  // Maps a zone of another process's rank, one that peers read.
  absl::Status MapPeer(int rank, int zone, int pid, int fd, int64_t size);

  // The beginning of the zone; null if it is empty or out of reach.
  char* Base(int rank, int zone) const { return ranks_[rank][zone].data; }
  // Whether the host may read and write a zone of one of our ranks in place.
  bool HostMayTouch(int rank, int zone) const { return ranks_[rank][zone].host_may_touch; }
  // The file of the disk tier of one of our ranks; null if nothing of it lies there.
  TierFile* disk(int rank) const { return ranks_[rank][kDiskZone].disk.get(); }
  // The memory file behind a zone of a rank; null if it has none.
  const SharedMemory* file(int rank, int zone) const { return ranks_[rank][zone].file.get(); }

 private:
  struct Zone {
    char* data = nullptr;
    bool host_may_touch = true;
    std::unique_ptr<SharedMemory> file;  // which `data` lies in; null: in memory of the device
    std::unique_ptr<TierFile> disk;      // which the addresses at `data` stand for
  };
  absl::Status Allocate(const ZoneKind& kind, int64_t bytes, DeviceContext& device, Zone& zone);

  std::vector<std::array<Zone, std::size(kZones)>> ranks_;  // by rank, by zone
  const std::string tier_folder_;
};

}  // namespace oneflow
