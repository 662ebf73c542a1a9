// The disk tier of a rank: memory that lies in a file, for what a rank does not need for a while and has no room for.
//
//   Write:  caller's memory ── copy, digest ──► buffers ── up to 8 transfers at a time ──► file
//   Read:   caller's memory ◄── check, copy ─── buffers ◄── up to 8 transfers at a time ── file
//
// The file has no name (O_TMPFILE), so nothing remains however a process ends. It is scratch: what must outlive the job
// is in its checkpoints, so nothing here is ever flushed. Transfers go past the page cache (O_DIRECT): its pages would
// take the memory that the tier is to save. O_DIRECT needs aligned memory, hence the buffers.
//
// Each block has a digest in host memory, which a read compares: a disk that returns other bytes than it was given
// ends the job instead of spoiling its weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "kernels/host_memory.h"
#include "oneflow_core/status.h"
#include "oneflow_core/zones.h"

namespace oneflow {

// Transfers in one direction between a file and memory, several at a time. For one thread at a time.
class TierTransfers {
 public:
  struct Request {
    int slot;  // tells transfers that are under way apart
    char* data;
    int64_t num_bytes;
    int64_t offset;  // bytes from the beginning of the file
  };
  struct Result {
    int slot;
    int64_t num_bytes;  // transferred, fewer than requested or none included; or -errno
  };

  virtual ~TierTransfers() = default;
  // Begins a transfer. `data` is the system's until Wait() has returned its result. REQUIRES: fewer than
  // TierFile::kDepth are under way.
  virtual void Start(const Request& request) = 0;
  // Waits for the end of any transfer that is under way. REQUIRES: there is one.
  virtual Result Wait() = 0;
};

// What a tier file asks of the system. Tests override calls to make them fail.
class TierDisk {
 public:
  enum class Direction { kRead, kWrite };

  virtual ~TierDisk() = default;
  // A new file without a name in `directory`, or -errno.
  virtual int Open(const std::string& directory);
  // Bytes that this process may still allocate on the disk of file `fd`; -errno.
  virtual int64_t FreeBytes(int fd);
  // Gives the file this size, with room on the disk for all of it. 0 or -errno.
  virtual int Allocate(int fd, int64_t num_bytes);
  // Transfers by io_uring; null if the system does not permit it, or lacks it.
  virtual std::unique_ptr<TierTransfers> Ring(int fd, Direction direction);
  // Transfers by blocking calls, one after the other.
  virtual std::unique_ptr<TierTransfers> Calls(int fd, Direction direction);
};

class TierFile {
 public:
  // Bytes; places in the file begin at multiples of it. The page size, and the largest unit of common disks.
  static constexpr int64_t kBlock = kFileBlock;
  // Bytes of one transfer: so many that the cost of a request does not count, so few that a copy of one hides behind
  // the transfers of others.
  static constexpr int64_t kChunk = 1 << 20;
  // Transfers at a time in each direction: drives reach their rate with some MiB under way.
  static constexpr int kDepth = 8;
  // What plans count (oneflow_core/zones.h): the buffers of both directions, and a digest of each block.
  static constexpr int64_t kBufferBytes = 2 * kDepth * kChunk;
  static_assert(kBufferBytes == kFileBufferBytes && kDigestBytes == sizeof(uint64_t));

  // For who names no folder: that for temporary files, $TMPDIR, else /var/tmp (/tmp is memory on many hosts).
  static std::string UsualFolder();

  // Makes a file of `num_bytes` zero bytes, rounded up to whole blocks, in `directory`. The disk sets room for all of
  // it aside now, so that later writes find room.
  //
  //   NotFound           there is no such directory
  //   PermissionDenied   this process may not write there
  //   InvalidArgument    the file system has no unnamed files, cannot set room aside or does not take O_DIRECT, as
  //                      older tmpfs; says to name another directory
  //   ResourceExhausted  the disk has too little room (with bytes wanted and bytes free), or the host too little memory
  //   Internal           anything else that the system refuses, in its words
  //
  // REQUIRES: num_bytes > 0. `disk` is used in this call only; what it returns lives as long as the file.
  static absl::StatusOr<std::unique_ptr<TierFile>> Create(const std::string& directory, int64_t num_bytes,
                                                          TierDisk& disk);
  static absl::StatusOr<std::unique_ptr<TierFile>> Create(const std::string& directory, int64_t num_bytes);
  ~TierFile();
  TierFile(const TierFile&) = delete;
  TierFile& operator=(const TierFile&) = delete;

  // A range of num_bytes() addresses without memory behind them: an address in it stands for a place in the file, as
  // addresses stand for places in other zones. Touching one is a memory fault.
  char* addresses() const { return addresses_; }
  // Bytes of the file, whole blocks.
  int64_t num_bytes() const { return num_bytes_; }
  bool Holds(const void* address) const;

  // Copy `num_bytes` from and to memory of any alignment, and return when they are copied. `place` is an address in the
  // range, a multiple of kBlock from its beginning. The last block is the caller's as a whole: Write() fills it up with
  // zeros. Blocks that were never written are zeros. A short transfer goes on with the rest.
  //
  //   DataLoss           Read(): a block has another digest than when it was written (with its offset in the file and
  //                      both digests). Both: the disk says EIO, or transfers nothing
  //   ResourceExhausted  Write(): the disk is full all the same, as thin volumes may be
  //   Internal           another error of the system, or a place that is not whole blocks of the file
  //
  // Errors of transfers name the offset in the file, bytes wanted and done, and the system's words. After an error of
  // Read() the memory at `to` is undefined; after one of Write() so are the blocks, until they are written again.
  //
  // Threads: one Read() and one Write() may run at the same time if they have no block in common. Whoever reads a block
  // must have seen its Write() return.
  absl::Status Read(const char* place, int64_t num_bytes, char* to);
  absl::Status Write(char* place, int64_t num_bytes, const char* from);

  // Whether transfers overlap. False where io_uring is not permitted, as in many containers: then they run one after
  // the other, which costs throughput.
  bool uses_ring() const { return reads_.is_ring && writes_.is_ring; }
  // The file. Owned by this object.
  int fd() const { return fd_; }

 private:
  // What one direction works with.
  struct Lane {
    absl::string_view name;  // in errors
    std::unique_ptr<TierTransfers> transfers;
    bool is_ring = false;
    char* buffers = nullptr;  // kDepth of kChunk bytes each
  };
  // A part of a Read() or Write() on its way through a buffer.
  struct Chunk {
    char* buffer;
    int64_t offset;     // in the file
    int64_t num_bytes;  // the caller's
    int64_t whole;      // bytes to transfer: whole blocks
    int64_t done;       // bytes transferred: whole blocks
  };

  TierFile(std::string directory, int fd, int64_t num_bytes)
      : directory_(std::move(directory)), fd_(fd), num_bytes_(num_bytes) {}

  absl::Status TakeMemory();
  void MakeLanes(TierDisk& disk);

  absl::StatusOr<int64_t> OffsetOf(const char* place, int64_t num_bytes) const;
  // Passes bytes of the file from `offset` on through the buffers. `fill` runs before the transfer of a chunk, `take`
  // after it; the others are under way meanwhile.
  absl::Status Pass(Lane& lane, int64_t offset, int64_t num_bytes, absl::FunctionRef<void(const Chunk&)> fill,
                    absl::FunctionRef<absl::Status(const Chunk&)> take);
  absl::Status Advance(const Lane& lane, int64_t result, Chunk& chunk) const;
  void Fill(const Chunk& chunk, const char* from);
  absl::Status Take(const Chunk& chunk, char* to) const;

  const std::string directory_;
  const int fd_;
  const int64_t num_bytes_;
  char* addresses_ = nullptr;
  HostPages memory_;             // the buffers, then the digests
  uint64_t* digests_ = nullptr;  // by block
  Lane reads_{"read"}, writes_{"write"};
};

}  // namespace oneflow
