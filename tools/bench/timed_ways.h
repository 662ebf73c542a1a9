// Ways to do the same work, timed in turn: what cases that compare kernels are made of.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Does the work once. Null, or what failed.
using TimedWay = std::function<const char*()>;

// Times of every way are repeated at least so often, but for the first, which finds its code and its memory cold.
inline constexpr int kLeastRepeats = 3;

// `best` if `seconds` is not less; 0 is no time yet.
void KeepShorter(double seconds, double& best);

// Every way in turn, until all have taken `least_seconds`; each beside where its shortest time goes. Cancelled, soon,
// if `stop` becomes true; Internal with what failed.
absl::Status TimeInTurn(const std::vector<std::pair<TimedWay, double*>>& ways, double least_seconds,
                        const std::atomic<bool>& stop);

// Memory of the device with random normal numbers, always the same; null if there is none left. f32 or bf16.
void* NormalNumbers(DeviceContext& device, DType dtype, int64_t count);

struct KernelOperand {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
};

// A call of the device's kernel, with all of its cores. Borrows the device. Internal if there is none for the first
// operand's type, or it does not take these shapes; ResourceExhausted if there is no memory for what it needs.
absl::StatusOr<TimedWay> KernelWay(DeviceContext& device, const std::string& op, AttrMap attrs,
                                   std::vector<KernelOperand> in, std::vector<KernelOperand> out);

}  // namespace oneflow
