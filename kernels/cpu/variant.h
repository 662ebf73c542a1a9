// The kernels compiled for several kinds of processors. A binary holds all variants; a process uses the best one that
// its processor can run.
//
//   amx           avx512_bf16 and products of tiles of bf16 (tile.h)
//   avx512_bf16   avx512 and dot products of pairs of bf16
//   avx512        x86-64-v4: 512-bit vectors with masks
//   avx2          x86-64-v3: 256-bit vectors, fused multiply-add, f16 conversions
//   portable      what every processor of the architecture has
//   amx_twin      the kernels of amx on tiles in memory: the same bits, slowly, wherever avx512_bf16 runs. Only in
//                 builds with tests, and only when it is asked for
//
// oneDNN chooses its own code in the same way. All variants give the same bits for random numbers, initial values,
// copies and integers. Sums of floats agree within rounding.
//
// Every source here except dispatch.cc and device.cc is compiled once per variant and linked into one object that
// exports only `oneflow_cpu_VARIANT` (tools/dev/cmake/rooms.cmake). Otherwise the linker would merge inline functions
// of the same name that were compiled for different processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/copy.h"
#include "kernels/device.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct Kernel;      // kernels/kernel.h
class KernelTable;  // kernels/kernel.h

// Counts of tile operations.
struct TileCounts {
  int64_t loads = 0, dots = 0, stores = 0;
};

struct CpuVariant {
  const char* name;
  std::vector<Kernel> (*kernels)();
  const char* (*copy_region)(const CopyRegionArgs& args);
  void (*fill_zero)(void* target, size_t num_bytes);
  void (*fill_uniform)(uint64_t key, uint64_t first, int64_t n, float bound, float* out);
  void (*fill_normal)(uint64_t key, uint64_t first, int64_t n, float deviation, float* out);
  // The operations of all kernels since the last call; null: the variant counts nothing. REQUIRES: no kernel is
  // running.
  TileCounts (*take_tile_counts)();
};

// The features of a processor that decide which kernels it runs.
struct Processor {
  bool avx2 = false;         // and all else of x86-64-v3
  bool avx512 = false;       // x86-64-v4
  bool avx512_bf16 = false;  // products of pairs
  bool amx_bf16 = false;     // tiles, and the system lets this process use them
  bool is_intel = false;     // whose products of pairs, without tiles, take four times as long as of floats
};
// Whether the processor can run the variant.
bool CanRun(const Processor& processor, absl::string_view variant);
// The rank of a variant on the processor; the highest is used. 0: only on request.
int Preference(const Processor& processor, absl::string_view variant);
// The processor of this process. Asks the system to let all threads of the process use tiles, if there are any.
const Processor& TheProcessor();

// All variants of this binary, in any order.
std::vector<const CpuVariant*> BuiltCpuVariants();
// The variants that this processor can run, the best first. Never empty.
absl::Span<const CpuVariant* const> RunnableCpuVariants();
// The variant of this name, or the best one if `name` is empty. InvalidArgument, with the names of the variants, if
// this binary has none of this name or the processor cannot run it.
absl::StatusOr<const CpuVariant*> FindCpuVariant(absl::string_view name);
// The variant of this process: the one that the environment variable ONEFLOW_CPU names, otherwise the best. If
// FindCpuVariant() refuses the name, the process ends with its error; no work has begun by then.
const CpuVariant& TheCpuVariant();
// Its kernels, and those that were added (kernels/kernel.h).
KernelTable CpuKernels(const CpuVariant& variant);
// A CPU device that uses this variant, whatever the process uses.
std::unique_ptr<DeviceContext> MakeCpuDevice(int num_cores, const CpuVariant& variant);

}  // namespace oneflow
