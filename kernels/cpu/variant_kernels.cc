// What one variant of the kernels shows of itself.
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/variant.h"
#include "kernels/random_fill.h"

namespace oneflow::cpu {
namespace {

std::vector<Kernel> AllKernels() {
  std::vector<Kernel> kernels;
  const auto add = [&](const KernelList& family) { kernels.insert(kernels.end(), family.begin(), family.end()); };
#define ONEFLOW_ADD_KERNELS(Family) add(Family##Kernels());
  ONEFLOW_KERNEL_FAMILIES(ONEFLOW_ADD_KERNELS)
#undef ONEFLOW_ADD_KERNELS
  return kernels;
}

}  // namespace

#if ONEFLOW_TILES == 2
constexpr TileCounts (*kCountTiles)() = TwinTiles::TakeCounts;
#else
constexpr TileCounts (*kCountTiles)() = nullptr;
#endif

}  // namespace oneflow::cpu

#define ONEFLOW_JOIN(a, b) a##b
#define ONEFLOW_ENTRY(variant) ONEFLOW_JOIN(oneflow_cpu_, variant)
#define ONEFLOW_TEXT(x) #x
#define ONEFLOW_NAME(variant) ONEFLOW_TEXT(variant)

extern "C" const oneflow::CpuVariant* ONEFLOW_ENTRY(ONEFLOW_CPU_VARIANT)() {
  static const oneflow::CpuVariant kVariant = {ONEFLOW_NAME(ONEFLOW_CPU_VARIANT),
                                               oneflow::cpu::AllKernels,
                                               oneflow::CopyRegion,
                                               oneflow::FillZero,
                                               oneflow::FillUniform,
                                               oneflow::FillNormal,
                                               oneflow::cpu::kCountTiles};
  return &kVariant;
}
