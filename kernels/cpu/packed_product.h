// A weight packed in panels (oneflow_core/packed.h), and what reads it.
#pragma once

#include "kernels/kernel.h"

namespace oneflow::cpu {

// in: w, f32 or bf16; out: packed bf16.
const char* PackWeight(const KernelArgs& args);
// The same; out: packed as it lies, and transposed.
const char* PackWeightBothWays(const KernelArgs& args);

// wide[k,n]: what was packed, as floats.
void UnpackWeight(const void* packed, int64_t k, int64_t n, float* wide);

}  // namespace oneflow::cpu
