// Shared by all data sources: the place of an act's samples in the order of data.
#pragma once

#include "actor/data/source.h"
#include "kernels/tensor_arg.h"

namespace oneflow {

// Numbers of samples wrap here, so that none is negative for any batch size in a program.
inline constexpr uint64_t kMostSamples = uint64_t{1} << 62;

// The number, from 0 since the job began, of the first sample of the shard `out`, whose dimension 0 is the samples.
inline int64_t FirstSample(int64_t step, int64_t micro_batch, int64_t micro_batches, const TensorArg& out,
                           int64_t row_shift) {
  const uint64_t act = static_cast<uint64_t>(step) * static_cast<uint64_t>(micro_batches) + micro_batch;
  return static_cast<int64_t>((act * out.logical_dims[0] + out.start[0] + row_shift) % kMostSamples);
}

// Whether the attribute `split` says "train". InvalidArgument if it is neither that nor "validation".
inline absl::StatusOr<bool> IsTrainSplit(const AttrMap& attributes) {
  const std::string split = attributes.String("split");
  if (split == "train") return true;
  if (split == "validation") return false;
  return absl::InvalidArgumentError(absl::StrCat("data split '", split, "' is neither 'train' nor 'validation'"));
}

}  // namespace oneflow
