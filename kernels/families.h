// The families of kernels. A family is a source file here and in each folder of a device kind, with the same ops in
// all: kernels/cpu/x.cc and kernels/cuda/x.cu have a function XKernels() each, which lists what is in them. This is the
// only list of families: one that a device kind lacks does not link.
#pragma once

#include <vector>

#include "kernels/kernel.h"

#define ONEFLOW_KERNEL_FAMILIES(FAMILY) \
  FAMILY(Attention)                     \
  FAMILY(AvgPool2d)                     \
  FAMILY(BatchNorm)                     \
  FAMILY(Bias)                          \
  FAMILY(Binary)                        \
  FAMILY(Cast)                          \
  FAMILY(Codec)                         \
  FAMILY(Compare)                       \
  FAMILY(Conv2d)                        \
  FAMILY(CrossEntropy)                  \
  FAMILY(Ctc)                           \
  FAMILY(Cumsum)                        \
  FAMILY(Dropout)                       \
  FAMILY(Elementwise)                   \
  FAMILY(Embedding)                     \
  FAMILY(Extremum)                      \
  FAMILY(Gelu)                          \
  FAMILY(Generation)                    \
  FAMILY(Index)                         \
  FAMILY(LayerNorm)                     \
  FAMILY(Layout)                        \
  FAMILY(Matmul)                        \
  FAMILY(MaxPool2d)                     \
  FAMILY(MergeAttention)                \
  FAMILY(Optimizer)                     \
  FAMILY(Pad)                           \
  FAMILY(Ragged)                        \
  FAMILY(Recurrence)                    \
  FAMILY(Reduce)                        \
  FAMILY(Replica)                       \
  FAMILY(RmsNorm)                       \
  FAMILY(Rotary)                        \
  FAMILY(Softmax)                       \
  FAMILY(SoftmaxParts)                  \
  FAMILY(State)                         \
  FAMILY(Unary)

namespace oneflow {

using KernelList = std::vector<Kernel>;

}  // namespace oneflow
