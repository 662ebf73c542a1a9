// Runs the blocks of a grid: every thread of a block is a fibre, which runs until it waits for others or is done. In
// which order threads run while none waits for another, and blocks, is drawn from a seed.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "test/support/cuda/fibre.h"

namespace oneflow::software_cuda {

// One per thread of the host that runs blocks; not thread-safe.
class BlockRunner {
 public:
  // That of this thread.
  static BlockRunner& OfThread();

  BlockRunner() = default;
  BlockRunner(const BlockRunner&) = delete;

  // All blocks of a grid. False if one did something wrong: that is reported, and what had not run does not.
  bool Run(const cudaLaunchConfig_t& config, const Launch& launch, uint64_t seed);

  // For the thread that runs: "block (0,0,0), thread (3,0,0)".
  std::string Where() const;
  // Ends the block of the thread that runs, behind a report. Does not return.
  [[noreturn]] void Abort();

  bool SyncBlock(bool vote);
  const uint64_t* SyncWarp(unsigned mask, uint64_t value);

  int thread() const { return current_; }

 private:
  static constexpr int kWarp = 32;

  enum class State : uint8_t { kReady, kWaitsForBlock, kWaitsForWarp, kLeft };
  struct Thread {
    State state = State::kReady;
    int fibre = -1;
    bool vote = false;
    unsigned mask = 0;
    uint64_t value = 0;
  };
  struct Warp {
    uint32_t epoch = 0;  // how often lanes of it have met
    // Of the lanes that met last. Whoever met reads them before any of them meets again: all that are ready run between
    // two meetings.
    uint64_t values[kWarp] = {};
  };

  void RunThread();
  Fibre& CurrentFibre() { return *fibres_[threads_[current_].fibre]; }
  bool RunBlock(uint64_t block);
  void Resume(int thread);
  void Wait(State state);
  bool Meet();
  bool MeetInWarp(int first);
  bool MeetAsBlock();
  void ReportNobodyComes();
  std::string ThreadText(int thread) const;
  int TakeFibre();

  const Launch* launch_ = nullptr;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::vector<int> free_fibres_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  uint32_t block_epoch_ = 0;  // how often the block has met
  int current_ = -1, num_left_ = 0;
  bool aborted_ = false, vote_ = false;
};

}  // namespace oneflow::software_cuda
