#include "tools/job/kernel_scratch.h"

#include <memory>
#include <optional>
#include <vector>

#include "actor/instruction/ragged_sum.h"
#include "kernels/host_transfer.h"
#include "kernels/scratch.h"

namespace oneflow {

static_assert(kTransferSlots == HostTransfer::kSlots);

namespace {

// Of a kernel that adds ragged rows up: with what its call by groups takes. Nothing if it is called otherwise.
std::optional<int64_t> ScratchOfRaggedSum(const Kernel& kernel, const OpDef& op, const AttrMap& attrs,
                                          absl::Span<const ShardType> inputs, absl::Span<const ShardType> outputs,
                                          int threads) {
  std::vector<TensorType> types;
  for (const ShardType& x : inputs) types.push_back({x.dtype, x.dims, x.ragged});
  if (!AnyRagged(types)) return std::nullopt;
  const AttrMap of_shard = op.shard_attrs == nullptr ? attrs : op.shard_attrs(attrs, inputs, outputs);
  const absl::StatusOr<RaggedRule> rule = RaggedRuleOf(op, {types, of_shard, /*of_shards=*/true});
  if (!rule.ok() || !rule->by_groups) return std::nullopt;
  const ShapeArgs in(inputs), out(outputs);
  const KernelArgs args = {.in = in.args(), .out = out.args(), .attrs = &of_shard, .threads = threads};
  return RaggedSum(*rule, kernel, args).ScratchBytes(args);
}

}  // namespace

KernelScratch ScratchOfKernels(DeviceKind device, int threads) {
  const auto kernels = std::make_shared<KernelTable>(device == DeviceKind::kCuda ? CudaKernels() : CpuKernels());
  return {OpsWithScratch(*kernels),
          [kernels, threads](const OpDef& op, const AttrMap& attrs, absl::Span<const ShardType> inputs,
                             absl::Span<const ShardType> outputs) {
            const Kernel* const kernel = inputs.empty() ? nullptr : kernels->Find(op.name, inputs[0].dtype);
            const std::optional<int64_t> of_sum =
                kernel == nullptr ? std::nullopt : ScratchOfRaggedSum(*kernel, op, attrs, inputs, outputs, threads);
            return of_sum.value_or(ScratchBytes(*kernels, op.name, attrs, inputs, outputs, threads));
          }};
}

}  // namespace oneflow
