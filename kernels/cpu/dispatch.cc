// The choice among the variants that were built, and what the rest of the engine calls of the chosen one.
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "kernels/cpu/variant.h"
#include "kernels/kernel.h"
#include "kernels/random_fill.h"

extern "C" {
#define ONEFLOW_DECLARE_VARIANT(name) const oneflow::CpuVariant* oneflow_cpu_##name();
ONEFLOW_CPU_VARIANTS(ONEFLOW_DECLARE_VARIANT)
#undef ONEFLOW_DECLARE_VARIANT
}

namespace oneflow {
namespace {

#ifdef __x86_64__
// Whether the processor has tiles of bf16 and the system lets all threads of this process use them. Linux does not
// before it is asked, since what it saves of a thread at each change then takes 8 KiB more.
bool MayUseTiles() {
  constexpr uint32_t kTilesOfBf16 = 1u << 22, kTiles = 1u << 24;  // of EDX of leaf 7
  constexpr long kAskForFeature = 0x1023, kTileData = 18;         // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kTilesOfBf16) == 0 || (edx & kTiles) == 0) return false;
  return syscall(SYS_arch_prctl, kAskForFeature, kTileData) == 0;
}
#endif

// The compiler's own test asks the system too, which has to save the wide registers.
Processor FindProcessor() {
  Processor found;
#ifdef __x86_64__
  found.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt") &&
               __builtin_cpu_supports("movbe");
  found.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vl");
  found.avx512_bf16 = __builtin_cpu_supports("avx512bf16");
  found.is_intel = __builtin_cpu_is("intel");
  found.amx_bf16 = MayUseTiles();
#endif
  return found;
}

std::string Names(absl::Span<const CpuVariant* const> variants) {
  return absl::StrJoin(variants, ", ", [](std::string* out, const CpuVariant* it) { absl::StrAppend(out, it->name); });
}

const CpuVariant& Chosen() {
  const char* const asked = std::getenv("ONEFLOW_CPU");
  const absl::StatusOr<const CpuVariant*> found = FindCpuVariant(asked == nullptr ? "" : asked);
  if (found.ok()) return **found;
  std::fprintf(stderr, "ONEFLOW_CPU: %s\n", std::string(found.status().message()).c_str());
  std::_Exit(1);
}

}  // namespace

bool CanRun(const Processor& processor, absl::string_view variant) {
  if (variant == "portable") return true;
  if (variant == "avx2") return processor.avx2;
  if (variant == "avx512") return processor.avx512 && CanRun(processor, "avx2");
  if (variant == "avx512_bf16" || variant == "amx_twin") return processor.avx512_bf16 && CanRun(processor, "avx512");
  if (variant == "amx") return processor.amx_bf16 && CanRun(processor, "avx512_bf16");
  return false;
}

int Preference(const Processor& processor, absl::string_view variant) {
  if (variant == "amx") return 6;
  if (variant == "avx512_bf16") return processor.is_intel ? 3 : 5;
  if (variant == "avx512") return 4;
  if (variant == "avx2") return 2;
  return variant == "portable" ? 1 : 0;
}

std::vector<const CpuVariant*> BuiltCpuVariants() {
  std::vector<const CpuVariant*> variants;
#define ONEFLOW_ADD_VARIANT(name) variants.push_back(oneflow_cpu_##name());
  ONEFLOW_CPU_VARIANTS(ONEFLOW_ADD_VARIANT)
#undef ONEFLOW_ADD_VARIANT
  return variants;
}

const Processor& TheProcessor() {
  static const Processor kFound = FindProcessor();
  return kFound;
}

absl::Span<const CpuVariant* const> RunnableCpuVariants() {
  static const auto* const kRunnable = [] {
    auto* const runnable = new std::vector<const CpuVariant*>;
    const Processor& processor = TheProcessor();
    for (const CpuVariant* const variant : BuiltCpuVariants()) {
      if (CanRun(processor, variant->name)) runnable->push_back(variant);
    }
    if (runnable->empty()) {
      std::fprintf(stderr, "this program has CPU kernels for %s alone, which this processor does not run\n",
                   Names(BuiltCpuVariants()).c_str());
      std::_Exit(1);
    }
    std::stable_sort(runnable->begin(), runnable->end(), [&](const CpuVariant* a, const CpuVariant* b) {
      return Preference(processor, a->name) > Preference(processor, b->name);
    });
    return runnable;
  }();
  return *kRunnable;
}

absl::StatusOr<const CpuVariant*> FindCpuVariant(absl::string_view name) {
  if (name.empty()) return RunnableCpuVariants().front();
  for (const CpuVariant* const variant : RunnableCpuVariants()) {
    if (variant->name == name) return variant;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' are no kernels that this processor runs; there are ",
                                                 Names(RunnableCpuVariants()), " of ", Names(BuiltCpuVariants())));
}

const CpuVariant& TheCpuVariant() {
  static const CpuVariant& kChosen = Chosen();
  return kChosen;
}

KernelTable CpuKernels() { return CpuKernels(TheCpuVariant()); }

KernelTable CpuKernels(const CpuVariant& variant) {
  std::vector<Kernel> kernels = variant.kernels();
  kernels.insert(kernels.end(), AddedCpuKernels().begin(), AddedCpuKernels().end());
  return KernelTable(std::move(kernels));
}

const char* CopyRegion(const CopyRegionArgs& args) { return TheCpuVariant().copy_region(args); }
void FillZero(void* target, size_t num_bytes) { TheCpuVariant().fill_zero(target, num_bytes); }
void FillUniform(uint64_t key, uint64_t first, int64_t n, float bound, float* out) {
  TheCpuVariant().fill_uniform(key, first, n, bound, out);
}
void FillNormal(uint64_t key, uint64_t first, int64_t n, float deviation, float* out) {
  TheCpuVariant().fill_normal(key, first, n, deviation, out);
}

}  // namespace oneflow
