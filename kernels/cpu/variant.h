// The same kernels compiled for several processors: a binary holds all of them and takes, once, the best that the
// processor it runs on can execute.
//
//   amx           avx512_bf16 and products of tiles of bf16 (tile.h)
//   avx512_bf16   avx512 and dot products of pairs of bf16
//   avx512        x86-64-v4: 512-bit vectors with masks
//   avx2          x86-64-v3: 256-bit vectors, fused multiply-add, f16 conversions
//   portable      what every processor of the architecture has
//   amx_twin      the kernels of amx on tiles in memory: the same bits, slowly, wherever avx512_bf16 runs. Only in
//                 builds with tests, and only when it is asked for
//
// oneDNN does the same for its own (bf16 products on AMX among them). Random numbers, initial values, copies and
// integers are the same to the bit; what sums floats agrees within rounding.
//
// Every source here but dispatch.cc and device.cc is compiled once per variant and linked into one object, of which
// only `oneflow_cpu_VARIANT` is visible outside (tools/dev/cmake/rooms.cmake). So no inline function that was compiled
// for one processor can be taken for another's, which the linker would do with equal names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/copy.h"
#include "kernels/device.h"
#include "kernels/kernel.h"
#include "oneflow_core/status.h"

namespace oneflow {

// How often kernels asked for what tiles do.
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
  // What all kernels did since the last call; null: the variant counts nothing. REQUIRES: no kernel runs.
  TileCounts (*take_tile_counts)();
};

// What of a processor decides which kernels it runs, and how fast.
struct Processor {
  bool avx2 = false;         // and all else of x86-64-v3
  bool avx512 = false;       // x86-64-v4
  bool avx512_bf16 = false;  // products of pairs
  bool amx_bf16 = false;     // tiles, and the system lets this process use them
  bool is_intel = false;     // whose products of pairs, without tiles, take four times as long as of floats
};
// Whether it can run a variant of that name.
bool CanRun(const Processor& processor, absl::string_view variant);
// How good that variant is for it, of those that it can run: the greatest number is taken. 0: only when it is asked
// for.
int Preference(const Processor& processor, absl::string_view variant);
// The one that this process runs on. Asks the system to let all of its threads use tiles, where there are any.
const Processor& TheProcessor();

// Those of this binary, whether this processor runs them or not, in any order.
std::vector<const CpuVariant*> BuiltCpuVariants();
// Those that this processor can run, best first; never empty.
absl::Span<const CpuVariant* const> RunnableCpuVariants();
// The one of that name; the best if `name` is empty. InvalidArgument, with the names that there are, if this binary has
// none of that name or the processor cannot run it.
absl::StatusOr<const CpuVariant*> FindCpuVariant(absl::string_view name);
// What this process computes with: that which the environment's ONEFLOW_CPU names, else the best. A name that
// FindCpuVariant refuses ends the process with its error: nothing has begun by then.
const CpuVariant& TheCpuVariant();
// A device of this host that computes with that variant, whichever this process computes with.
std::unique_ptr<DeviceContext> MakeCpuDevice(int num_cores, const CpuVariant& variant);

}  // namespace oneflow
