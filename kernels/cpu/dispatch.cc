// The choice among the variants that were built, and what the rest of the engine calls of the chosen one.
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "kernels/cpu/variant.h"
#include "kernels/random_fill.h"

extern "C" {
#define ONEFLOW_DECLARE_VARIANT(name) const oneflow::CpuVariant* oneflow_cpu_##name();
ONEFLOW_CPU_VARIANTS(ONEFLOW_DECLARE_VARIANT)
#undef ONEFLOW_DECLARE_VARIANT
}

namespace oneflow {
namespace {

// Those that were built, best first.
std::vector<const CpuVariant*> BuiltVariants() {
  std::vector<const CpuVariant*> variants;
#define ONEFLOW_ADD_VARIANT(name) variants.push_back(oneflow_cpu_##name());
  ONEFLOW_CPU_VARIANTS(ONEFLOW_ADD_VARIANT)
#undef ONEFLOW_ADD_VARIANT
  return variants;
}

// The compiler's own test asks the system too, which has to save the wide registers.
bool CanRun(absl::string_view variant) {
#ifdef __x86_64__
  if (variant == "avx512_bf16") return __builtin_cpu_supports("avx512bf16") && CanRun("avx512");
  if (variant == "avx512") {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && CanRun("avx2");
  }
  if (variant == "avx2") {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt") &&
           __builtin_cpu_supports("movbe");
  }
#endif
  return variant == "portable";
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

absl::Span<const CpuVariant* const> RunnableCpuVariants() {
  static const auto* const kRunnable = [] {
    auto* const runnable = new std::vector<const CpuVariant*>;
    for (const CpuVariant* const variant : BuiltVariants()) {
      if (CanRun(variant->name)) runnable->push_back(variant);
    }
    CHECK(!runnable->empty());
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
                                                 Names(RunnableCpuVariants()), " of ", Names(BuiltVariants())));
}

const CpuVariant& TheCpuVariant() {
  static const CpuVariant& kChosen = Chosen();
  return kChosen;
}

KernelTable CpuKernels() { return KernelTable(TheCpuVariant().kernels()); }

const char* CopyRegion(const CopyRegionArgs& args) { return TheCpuVariant().copy_region(args); }
void FillZero(void* target, size_t num_bytes) { TheCpuVariant().fill_zero(target, num_bytes); }
void FillUniform(uint64_t key, uint64_t first, int64_t n, float bound, float* out) {
  TheCpuVariant().fill_uniform(key, first, n, bound, out);
}
void FillNormal(uint64_t key, uint64_t first, int64_t n, float deviation, float* out) {
  TheCpuVariant().fill_normal(key, first, n, deviation, out);
}

}  // namespace oneflow
