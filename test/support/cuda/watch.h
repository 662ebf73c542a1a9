// Watches every access to memory that kernels make. They are compiled with the compiler's hooks for data races
// (-fsanitize=thread), which are defined here, and mean:
//
//   own stack, the launch's arguments, constants     fine
//   shared memory      written before it is read; another thread's write or read lies on the other side of a meeting;
//                      of dynamic shared memory as much as the launch asked for
//   device memory      within one allocation, of the device whose stream runs
//   anything else      the host's
//
// What is not so is a defect, and ends the block.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace oneflow::software_cuda {

// What a block of an H100 may have.
inline constexpr size_t kMaxSharedBytes = 232'448;

struct Region {
  const char* begin = nullptr;
  const char* end = nullptr;
  bool Has(const void* data) const { return data >= begin && data < end; }
  bool Has(const void* data, size_t bytes) const {
    return Has(data) && static_cast<size_t>(end - static_cast<const char*>(data)) >= bytes;
  }
};

// Whether accesses are watched at all: not if SOFTWARE_CUDA_UNWATCHED is set, for programs of which other things are of
// interest, and that run several times as fast then.
extern const bool kWatching;

// Of one thread of the host.
class Watch {
 public:
  constexpr Watch() = default;

  void BeginGrid(const Launch& launch, size_t dynamic_shared_bytes);
  void BeginBlock() { ++block_; }
  // Who runs. A thread goes on only behind a meeting, so the epochs stay until it leaves.
  struct Running {
    int thread = -1;
    uint32_t epoch = 0, warp_epoch = 0;  // how often its block has met, and its warp
  };
  // Between these a thread of a block runs, on this stack.
  void Enter(const char* stack, size_t bytes, const Running& running) {
    if (kWatching) stack_ = {stack, stack + bytes};
    running_ = running;
  }
  void Leave() { stack_ = {}; }

  void Access(const void* data, size_t bytes, bool write) {
    if (stack_.begin == nullptr || stack_.Has(data)) return;
    AccessOutside(static_cast<const char*>(data), bytes, write);
  }
  // In one piece, for which a GPU needs an address that is a multiple of its size.
  void AlignedAccess(const void* data, size_t bytes, bool write) {
    if (stack_.begin == nullptr || stack_.Has(data)) return;
    if (reinterpret_cast<uintptr_t>(data) % bytes != 0) return Misaligned(data, bytes, write);
    AccessOutside(static_cast<const char*>(data), bytes, write);
  }
  // Of shared or device memory.
  void Atomic(const void* data, size_t bytes);

 private:
  friend class Unwatched;
  enum class Kind { kRead, kWrite, kAtomic };
  static constexpr int kWarp = 32, kNobody = -1, kMany = -2;
  // What was last done to four bytes of shared memory; masks have a bit for each byte. Small, since kernels that divide
  // all of it among them would not leave room in the cache for more.
  struct alignas(32) Word {
    uint32_t block = 0;                        // in which block; what another's says is over
    uint32_t write_epoch = 0, read_epoch = 0;  // of the block
    uint32_t write_warp_epoch = 0, read_warp_epoch = 0;
    int16_t writer = kNobody, reader = kNobody;  // threads; or kMany have read
    int8_t writer_warp = kNobody, reader_warp = kNobody;
    uint8_t written = 0;       // by anyone
    uint8_t last_written = 0;  // by `writer`
    uint8_t read = 0;          // since the block met
    bool is_atomic = false;    // the last write
  };

  void AccessOutside(const char* data, size_t bytes, bool write);
  void Misaligned(const void* data, size_t bytes, bool write);
  // False if the access is a defect, which is reported.
  bool Check(const char* data, size_t bytes, Kind kind);
  bool CheckShared(const char* data, size_t bytes, Kind kind);
  bool CheckWord(Word& word, uint8_t bytes, Kind kind);
  // Whether reading it is fine and changes nothing: most reads are so, of what all threads read between two meetings.
  bool IsReadAgain(const Word& word, uint8_t bytes) const {
    return word.block == block_ && word.read_epoch == running_.epoch && word.reader == kMany &&
           word.reader_warp == kMany && word.write_epoch != running_.epoch &&
           (bytes & ~(word.written & word.read)) == 0;
  }
  // Of shared memory: which other thread does what there. Reports it. False.
  bool FailInShared(uint8_t bytes, Kind kind, int other, const char* does);
  // Reports it. False.
  bool Fail(Kind kind, size_t bytes, const std::string& what);

  Region stack_, arguments_, shared_, dynamic_shared_;
  Region known_;  // the allocation that was accessed last
  uint64_t known_generation_ = 0;
  uint32_t block_ = 0;
  Running running_;
  std::vector<Word>* words_ = nullptr;  // of shared_; lives as long as the thread
};

extern constinit thread_local Watch watch;

// While it lives, what this thread does is the device's own work: inline functions that kernels use too have the hooks
// in them wherever they are called from.
class Unwatched {
 public:
  Unwatched() : stack_(watch.stack_) { watch.Leave(); }
  Unwatched(const Unwatched&) = delete;
  ~Unwatched() { watch.stack_ = stack_; }

 private:
  const Region stack_;
};

// The device whose stream's work this thread runs, or -1.
int DeviceOfThread();

}  // namespace oneflow::software_cuda
