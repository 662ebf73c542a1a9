#include "tools/job/kernel_scratch.h"

#include <memory>

#include "kernels/host_transfer.h"
#include "kernels/scratch.h"

namespace oneflow {

static_assert(kTransferSlots == HostTransfer::kSlots);

KernelScratch ScratchOfKernels(DeviceKind device, int threads) {
  const auto kernels = std::make_shared<KernelTable>(device == DeviceKind::kCuda ? CudaKernels() : CpuKernels());
  return {OpsWithScratch(*kernels),
          [kernels, threads](const std::string& op, const AttrMap& attrs, absl::Span<const ShardType> inputs,
                             absl::Span<const ShardType> outputs) {
            return ScratchBytes(*kernels, op, attrs, inputs, outputs, threads);
          }};
}

}  // namespace oneflow
