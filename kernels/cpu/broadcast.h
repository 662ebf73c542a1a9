// Loops over operands that broadcast, in runs along the innermost dimension, on all cores.
#pragma once

#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/loops.h"

namespace oneflow::cpu {

// Neighbouring elements of the result: where they begin in each operand, and in the result. An operand moves by its
// stride from one to the next: 0 repeats an element, and 1 reads neighbours.
template <size_t N>
struct BroadcastRun {
  std::array<int64_t, N> from = {}, stride = {};
  int64_t to = 0, count = 0;
};

// f(run) for all runs of a BroadcastLoop(). `element_bytes`: what is read and written per element.
template <size_t N, typename F>
void ForRuns(std::vector<LoopDim<N>> dims, int64_t element_bytes, F f) {
  if (dims.empty()) dims.push_back({1, {}});
  const LoopDim<N> inner = dims.back();
  dims.pop_back();
  int64_t rows = 1;
  for (const LoopDim<N>& dim : dims) rows *= dim.extent;
  if (rows == 0 || inner.extent == 0) return;
  if (dims.empty()) {
    ParallelFor(inner.extent, Grain(element_bytes), [&](int64_t begin, int64_t end) {
      BroadcastRun<N> run = {.stride = inner.stride, .to = begin, .count = end - begin};
      for (size_t k = 0; k < N; ++k) run.from[k] = begin * inner.stride[k];
      f(run);
    });
    return;
  }
  ParallelFor(rows, Grain(element_bytes * inner.extent), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      BroadcastRun<N> run = {.stride = inner.stride, .to = row * inner.extent, .count = inner.extent};
      int64_t rest = row;
      for (size_t i = dims.size(); i-- > 0; rest /= dims[i].extent) {
        for (size_t k = 0; k < N; ++k) run.from[k] += rest % dims[i].extent * dims[i].stride[k];
      }
      f(run);
    }
  });
}

}  // namespace oneflow::cpu
