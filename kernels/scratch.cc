#include "kernels/scratch.h"

#include <omp.h>

#include <vector>

namespace oneflow {
namespace {

// Libraries size some scratch memory by the threads that the calling thread would use.
class WithThreads {
 public:
  explicit WithThreads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~WithThreads() { omp_set_num_threads(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  const int before_;
};

}  // namespace

ShapeArgs::ShapeArgs(absl::Span<const ShardType> types) {
  for (const ShardType& type : types) {
    starts_.emplace_back(type.dims.rank(), 0);
    args_.push_back({nullptr, type.dtype, type.dims.rank(), type.dims.count(), type.dims.dims().data(),
                     type.logical_dims.dims().data(), starts_.back().data(), type.layout});
  }
}

std::set<std::string> OpsWithScratch(const KernelTable& kernels) {
  std::set<std::string> ops;
  for (const Kernel& kernel : kernels.all()) {
    if (kernel.workspace_bytes != nullptr) ops.insert(kernel.op);
  }
  return ops;
}

int64_t ScratchBytes(const KernelTable& kernels, const std::string& op, const AttrMap& attrs,
                     absl::Span<const ShardType> inputs, absl::Span<const ShardType> outputs, int threads) {
  if (inputs.empty() && outputs.empty()) return 0;
  const Kernel* const kernel = kernels.Find(op, inputs.empty() ? outputs[0].dtype : inputs[0].dtype);
  if (kernel == nullptr || kernel->workspace_bytes == nullptr) return 0;
  const ShapeArgs in(inputs), out(outputs);
  const WithThreads guard(threads);
  return static_cast<int64_t>(
      kernel->workspace_bytes({.in = in.args(), .out = out.args(), .attrs = &attrs, .threads = threads}));
}

}  // namespace oneflow
