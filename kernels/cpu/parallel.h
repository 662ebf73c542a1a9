// Intra-op parallelism: a loop cut into as many contiguous parts as the calling thread may use cores. A device with one
// core, a small loop and a nested call all run in place without an OpenMP region.
//
// How a loop is cut depends on the number of threads, so nothing may be summed across the parts: reductions cut their
// data into blocks of a fixed size (FixedBlocks) and combine the blocks in order.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace oneflow::cpu {

// The cores of this process.
inline int MaxThreads() {
  static const int max_threads = std::max(1, omp_get_num_procs());
  return max_threads;
}

// Threads that the calling thread may use now.
inline int NumThreads() { return omp_in_parallel() ? 1 : std::min(omp_get_max_threads(), MaxThreads()); }

// Of n units, where each thread should have `grain`.
inline int ThreadsFor(int64_t n, int64_t grain, int most) {
  const int64_t useful = (n + grain - 1) / grain;
  return static_cast<int>(std::min<int64_t>(std::min(NumThreads(), most), useful));
}

// The loop in the calling thread.
template <typename Body>
void RunAll(int64_t n, Body&& body) {
  if (n > 0) body(int64_t{0}, n, 0);
}

// body(begin, end, thread) for a partition of [0, n) with at least `grain` units in all parts but one; 0 <= thread <
// most.
template <typename Body>
void ParallelForThread(int64_t n, int64_t grain, int most, Body&& body) {
  const int threads = ThreadsFor(n, grain, most);
  if (threads <= 1) return RunAll(n, body);
#pragma omp parallel num_threads(threads)
  {
    const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
    const int64_t begin = n * part / parts, end = n * (part + 1) / parts;
    if (begin < end) body(begin, end, static_cast<int>(part));
  }
}

template <typename Body>
void ParallelFor(int64_t n, int64_t grain, Body&& body) {
  ParallelForThread(n, grain, MaxThreads(), [&](int64_t begin, int64_t end, int) { body(begin, end); });
}

// As ParallelForThread, but a part goes to the thread that is free: large parts first, at last `grain` units. For long
// loops: cores of virtual machines may run at half the speed of one another for seconds, and no thread waits for that.
// A thread's body is called several times. Which parts there are depends on time, so nothing may depend on them.
template <typename Body>
void ParallelForFree(int64_t n, int64_t grain, int most, Body&& body) {
  const int threads = ThreadsFor(n, grain, most);
  if (threads <= 1) return RunAll(n, body);
  std::atomic<int64_t> taken = 0;
#pragma omp parallel num_threads(threads)
  {
    const int64_t parts = omp_get_num_threads();
    int64_t begin = taken.load(std::memory_order_relaxed);
    while (begin < n) {
      const int64_t end = std::min(n, begin + std::max(grain, (n - begin) / (2 * parts)));
      if (!taken.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      body(begin, end, omp_get_thread_num());
      begin = taken.load(std::memory_order_relaxed);
    }
  }
}

// Bytes below which a second thread costs more than it brings: waking and joining a thread takes about 2 us, in which
// one core streams about 32 KiB.
inline constexpr int64_t kParallelBytes = 32 << 10;

// Units of `unit_bytes` bytes that make a part worth a thread.
inline int64_t Grain(int64_t unit_bytes) {
  return std::max<int64_t>(1, kParallelBytes / std::max<int64_t>(1, unit_bytes));
}

// f(row) for all rows, of each of which so many bytes are read or written.
template <typename F>
void ForRows(int64_t rows, int64_t row_bytes, F f) {
  ParallelFor(rows, Grain(row_bytes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) f(row);
  });
}

// Rows cut into blocks for a reduction over them: at most 64 blocks of at least 32 rows, whatever the number of
// threads.
struct FixedBlocks {
  explicit FixedBlocks(int64_t rows)
      : rows(rows), size(std::max<int64_t>(32, (rows + 63) / 64)), count((rows + size - 1) / size) {}
  int64_t begin(int64_t block) const { return block * size; }
  int64_t end(int64_t block) const { return std::min(rows, (block + 1) * size); }
  int64_t rows, size, count;
};

}  // namespace oneflow::cpu
