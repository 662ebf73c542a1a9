// An op of PyTorch on so few elements that only calling it takes time.
#pragma once

#include <atomic>
#include <string>

#include "oneflow_core/status.h"

namespace oneflow {

struct EagerOp {
  double ns = 0;
  std::string title;  // "PyTorch 2.1.0"
};

// Adds two tensors of 16 elements, on one thread, many times: the median of seven runs. `python` is found in $PATH,
// `dir` is for what it writes. Unavailable if it has no PyTorch; Cancelled, soon, if `stop` becomes true; Internal with
// its last words if it fails.
absl::StatusOr<EagerOp> MeasureEagerOp(const std::string& python, const std::string& dir,
                                       const std::atomic<bool>& stop);

}  // namespace oneflow
