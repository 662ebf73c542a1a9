// What kernels of all devices read from a `literal`: its numbers, parsed once, and which of them are a shard's.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/kernel.h"
#include "oneflow_core/literal.h"

namespace oneflow {

// All numbers, as the state of a kernel. Nothing if they are not as many as the tensor has elements.
inline std::shared_ptr<void> PrepareLiteral(const KernelArgs& args) {
  std::optional<std::vector<double>> values = ParseLiteral(args.attrs->String("values"));
  size_t count = 1;
  for (int d = 0; d < args.out[0].rank; ++d) count *= static_cast<size_t>(args.out[0].logical_dims[d]);
  if (!values.has_value() || values->size() != count) return nullptr;
  return std::make_shared<std::vector<double>>(*std::move(values));
}

// Number i of the shard, in its row-major order.
inline double LiteralOfShard(const KernelArgs& args, int64_t i) {
  const TensorArg& x = args.out[0];
  int64_t logical = 0, stride = 1;
  for (int d = x.rank - 1; d >= 0; --d) {
    logical += (x.start[d] + i % x.dims[d]) * stride;
    i /= x.dims[d];
    stride *= x.logical_dims[d];
  }
  return (*static_cast<const std::vector<double>*>(args.state))[static_cast<size_t>(logical)];
}

}  // namespace oneflow
