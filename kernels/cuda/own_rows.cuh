// Sums into rows by index, without atomics: a block owns a few rows of the table, searches all indices for them, and is
// the only one to write them. It takes a piece of kThreads indices at a time, an index per thread, and lists those of
// its rows in ascending order, so that every element is summed in the order of the indices.
//
//   ForOwnRows(table.rows, [&](int64_t begin, int64_t end) {
//     for (int64_t piece = 0; piece < n; piece += kThreads) {
//       const int count = own.List(<the row of index piece + threadIdx.x, or -1>, begin, end);
//       for (int k = 0; k < count; ++k) ... own.row[k], own.position[k] ...
#pragma once

#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {

// Rows that a block owns. More rows share one search through the indices; fewer use more of the GPU where the table is
// small. 8: a table of 50k rows makes 6k blocks.
inline constexpr int kOwnRows = 8;

// f(begin, end) for each run of rows that this block owns.
template <typename F>
__device__ void ForOwnRows(int64_t rows, F f) {
  for (int64_t begin = int64_t{blockIdx.x} * kOwnRows; begin < rows; begin += int64_t{gridDim.x} * kOwnRows) {
    f(begin, begin + kOwnRows < rows ? begin + kOwnRows : rows);
  }
}

// The entries of a piece of the indices whose rows the block owns. Lies in shared memory.
struct OwnEntries {
  // Makes the list, of which this thread's entry is part if begin <= row < end; gives its length. All threads call it,
  // which is a barrier: what they wrote before is seen by all, and the last list is no longer read.
  __device__ int List(int64_t row_of_thread, int64_t begin, int64_t end) {
    const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    const bool is_own = row_of_thread >= begin && row_of_thread < end;
    const unsigned votes = __ballot_sync(0xffffffffu, is_own);
    if (lane == 0) count_of_warp[warp] = __popc(votes);
    if (__syncthreads_or(is_own) == 0) return 0;  // most pieces end here
    int at = __popc(votes & ((1u << lane) - 1)), count = 0;
    for (int w = 0; w < kThreads / kWarp; ++w) {
      if (w == warp) at += count;
      count += count_of_warp[w];
    }
    if (is_own) {
      position[at] = threadIdx.x;
      row[at] = row_of_thread;
    }
    __syncthreads();
    return count;
  }

  int position[kThreads];  // in the piece
  int64_t row[kThreads];
  int count_of_warp[kThreads / kWarp];
};

}  // namespace oneflow::cuda
