// Which instructions of an act a GPU's libraries run as one kernel.
//
//   bias_add ─► gelu                    one pass over memory: what lies between them is read by nobody else, or written
//   scale ─► add ─► softmax             only; softmax ends such a chain, its gradient begins one
//   matmul_wgrad ─► cast ─► accumulate  a product that adds to what is there
//   reshape, transpose                  views: products take strides
//
// This engine runs a kernel for each of these instructions, so that this is not what it takes on a device. It is for
// predicting what other systems took, which fused them.
#pragma once

#include <vector>

#include "proto/program.pb.h"

namespace oneflow {

// What the instructions of an actor move, one after another: `bytes[i]` between the device's memory and kernels for
// instruction i; negative where it is what its operands have. A group's bytes are those of its last instruction.
struct GroupedBytes {
  std::vector<double> bytes;
  std::vector<int> group;  // by instruction: number of the first of its group
};
GroupedBytes GroupKernels(const pb::Actor& actor);

}  // namespace oneflow
