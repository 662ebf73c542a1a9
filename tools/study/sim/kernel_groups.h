// Which instructions of an act a GPU's libraries run as one kernel.
//
//   bias_add ─► gelu                    one pass over memory: what lies between them is read by nobody else, or written
//   scale ─► add ─► softmax             only; softmax ends such a chain, its gradient begins one
//   matmul_wgrad ─► cast ─► accumulate  a product that adds to what is there, and reads it for that
//   reshape, transpose                  views: products take strides
//
// This engine runs a kernel for each of these instructions, so that this is not what it takes on a device. It is for
// predicting what other systems took, which fused them. Sums of gradients were kernels of their own for long: PyTorch
// adds a micro-batch's gradient to the sum, both as wide as what the product multiplies.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace oneflow {

// What the instructions of an actor move, one after another: `bytes[i]` between the device's memory and kernels for
// instruction i; negative where it is what its operands have. A group's bytes are those of its last instruction.
struct GroupedBytes {
  std::vector<double> bytes;
  std::vector<int> group;  // by instruction: number of the first of its group
};
// `sums`: whether what a product adds to the sum of gradients is a part of its kernel.
enum class GradientSums : uint8_t { kOfProducts, kOfTheirOwn };
GroupedBytes GroupKernels(const pb::Actor& actor, GradientSums sums);

}  // namespace oneflow
