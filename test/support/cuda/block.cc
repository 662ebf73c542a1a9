#include "test/support/cuda/block.h"

#include <numeric>
#include <utility>

#include "test/support/cuda/software_device.h"
#include "test/support/cuda/watch.h"

constinit thread_local uint3 threadIdx = {}, blockIdx = {};
constinit thread_local dim3 blockDim = {}, gridDim = {};

namespace oneflow::software_cuda {
namespace {

// Numbers below n in an order that takes no memory: from a random one on, with a random step that reaches all.
class Order {
 public:
  Order(uint64_t n, std::mt19937_64& random) : n_(n), at_(random() % n) {
    do step_ = 1 + random() % n;
    while (std::gcd(step_, n) != 1);
  }
  uint64_t Next() {
    const uint64_t number = at_;
    at_ = (at_ + step_) % n_;
    return number;
  }

 private:
  const uint64_t n_;
  uint64_t at_, step_;
};

uint3 At(uint64_t index, const dim3& size) {
  return {static_cast<unsigned>(index % size.x), static_cast<unsigned>(index / size.x % size.y),
          static_cast<unsigned>(index / size.x / size.y)};
}

std::string Text(const uint3& at) {
  return "(" + std::to_string(at.x) + "," + std::to_string(at.y) + "," + std::to_string(at.z) + ")";
}

uint64_t Count(const dim3& size) { return uint64_t{size.x} * size.y * size.z; }

}  // namespace

BlockRunner& BlockRunner::OfThread() {
  thread_local BlockRunner runner;
  return runner;
}

bool BlockRunner::Run(const cudaLaunchConfig_t& config, const Launch& launch, uint64_t seed) {
  launch_ = &launch;
  random_.seed(seed);
  blockDim = config.blockDim;
  gridDim = config.gridDim;
  watch.BeginGrid(launch, config.dynamicSmemBytes);
  const uint64_t blocks = Count(config.gridDim);
  threads_.resize(Count(config.blockDim));
  warps_.resize((threads_.size() + kWarp - 1) / kWarp);
  Order order(blocks, random_);
  for (uint64_t i = 0; i < blocks; ++i) {
    if (!RunBlock(order.Next())) return false;
  }
  return true;
}

std::string BlockRunner::Where() const { return "block " + Text(blockIdx) + ", thread " + ThreadText(current_); }

std::string BlockRunner::ThreadText(int thread) const { return Text(At(thread, blockDim)); }

void BlockRunner::Abort() {
  aborted_ = true;
  CurrentFibre().Abandon();
}

bool BlockRunner::RunBlock(uint64_t block) {
  blockIdx = At(block, gridDim);
  watch.BeginBlock();
  for (Thread& thread : threads_) thread.state = State::kReady, thread.fibre = -1;
  num_left_ = 0;
  aborted_ = false;
  const int n = static_cast<int>(threads_.size());
  while (num_left_ < n) {
    Order order(n, random_);
    for (int i = 0; i < n && !aborted_; ++i) {
      const int thread = static_cast<int>(order.Next());
      if (threads_[thread].state == State::kReady) Resume(thread);
    }
    if (!aborted_ && (num_left_ == n || Meet())) continue;
    if (!aborted_) ReportNobodyComes();
    for (const Thread& thread : threads_) {  // those in the middle of something are given up
      if (thread.fibre < 0) continue;
      fibres_[thread.fibre]->Restart();
      free_fibres_.push_back(thread.fibre);
    }
    return false;
  }
  return true;
}

void BlockRunner::Resume(int thread) {
  Thread& it = threads_[thread];
  if (it.fibre < 0) it.fibre = TakeFibre();
  Fibre& fibre = *fibres_[it.fibre];
  current_ = thread;
  threadIdx = At(thread, blockDim);
  watch.Enter(fibre.stack(), Fibre::kBytes, {thread, block_epoch_, warps_[thread / kWarp].epoch});
  fibre.Resume();
  watch.Leave();
  if (it.state != State::kLeft) return;
  free_fibres_.push_back(std::exchange(it.fibre, -1));
  ++num_left_;
}

void BlockRunner::RunThread() {
  launch_->call(launch_->kernel, launch_->arguments.get());
  threads_[current_].state = State::kLeft;
}

void BlockRunner::Wait(State state) {
  threads_[current_].state = state;
  CurrentFibre().Suspend();
  watch.Leave();  // whoever waits is unwatched until it returns to the kernel
}

bool BlockRunner::SyncBlock(bool vote) {
  const Unwatched unwatched;
  threads_[current_].vote = vote;
  Wait(State::kWaitsForBlock);
  return vote_;
}

const uint64_t* BlockRunner::SyncWarp(unsigned mask, uint64_t value) {
  const Unwatched unwatched;
  Thread& it = threads_[current_];
  it.mask = mask;
  it.value = value;
  if ((mask >> (current_ % kWarp) & 1) == 0) {
    Report(Where() + ": calls for lanes " + std::to_string(mask) + ", of which it is none", cudaErrorLaunchFailure);
    Abort();
  }
  Wait(State::kWaitsForWarp);
  return warps_[current_ / kWarp].values;
}

// Lets those go on whose whole company has come. False if nobody's has.
bool BlockRunner::Meet() {
  bool met = false;
  for (size_t first = 0; first < threads_.size(); ++first) {
    if (threads_[first].state == State::kWaitsForWarp) met |= MeetInWarp(static_cast<int>(first));
  }
  return met || MeetAsBlock();
}

// The lanes that the waiting thread `first` waits for.
bool BlockRunner::MeetInWarp(int first) {
  const int begin = first / kWarp * kWarp;
  const unsigned mask = threads_[first].mask;
  const auto each = [&](auto&& visit) {
    for (int lane = 0; lane < kWarp; ++lane) {
      if ((mask >> lane & 1) && !visit(lane)) return false;
    }
    return true;
  };
  const bool all = each([&](int lane) {
    const size_t at = begin + lane;
    return at < threads_.size() && threads_[at].state == State::kWaitsForWarp && threads_[at].mask == mask;
  });
  if (!all) return false;
  Warp& warp = warps_[first / kWarp];
  each([&](int lane) {
    Thread& it = threads_[begin + lane];
    it.state = State::kReady;
    warp.values[lane] = it.value;
    return true;
  });
  ++warp.epoch;
  return true;
}

bool BlockRunner::MeetAsBlock() {
  vote_ = false;
  for (const Thread& thread : threads_) {
    if (thread.state != State::kWaitsForBlock) return false;
    vote_ |= thread.vote;
  }
  for (Thread& thread : threads_) thread.state = State::kReady;
  ++block_epoch_;
  return true;
}

void BlockRunner::ReportNobodyComes() {
  const auto find = [&](auto&& matches) {
    for (size_t i = 0; i < threads_.size(); ++i) {
      if (matches(threads_[i])) return static_cast<int>(i);
    }
    return -1;
  };
  const int waits = find([](const Thread& x) { return x.state != State::kLeft; });
  const bool for_block = threads_[waits].state == State::kWaitsForBlock;
  const int absent =
      find([&](const Thread& x) { return x.state != threads_[waits].state || x.mask != threads_[waits].mask; });
  const auto said = [&](int thread) {
    const State state = threads_[thread].state;
    return "thread " + ThreadText(thread) +
           (state == State::kLeft            ? " has left"
            : state == State::kWaitsForBlock ? " waits for its block"
                                             : " waits for its warp");
  };
  Report("block " + Text(blockIdx) + ": a meeting that not all come to: " + said(waits) +
             (absent >= 0 ? ", " + said(absent)
              : for_block ? ""
                          : " for lanes that the block does not have"),
         cudaErrorLaunchFailure);
}

int BlockRunner::TakeFibre() {
  if (free_fibres_.empty()) {
    fibres_.push_back(
        std::make_unique<Fibre>([](void* runner) { static_cast<BlockRunner*>(runner)->RunThread(); }, this));
    return static_cast<int>(fibres_.size()) - 1;
  }
  const int fibre = free_fibres_.back();
  free_fibres_.pop_back();
  return fibre;
}

bool SyncBlock(bool vote) { return BlockRunner::OfThread().SyncBlock(vote); }
const uint64_t* SyncWarp(unsigned mask, uint64_t value) { return BlockRunner::OfThread().SyncWarp(mask, value); }
int LaneInWarp() { return BlockRunner::OfThread().thread() % 32; }

namespace {

// Blocks of other streams may add to the same place.
template <typename T>
T Add(T* sum, T value) {
  watch.Atomic(sum, sizeof(T));
  return __atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
}

}  // namespace

unsigned AtomicAdd(unsigned* sum, unsigned value) { return Add(sum, value); }
int AtomicAdd(int* sum, int value) { return Add(sum, value); }
uint64_t AtomicAdd(uint64_t* sum, uint64_t value) { return Add(sum, value); }

}  // namespace oneflow::software_cuda
