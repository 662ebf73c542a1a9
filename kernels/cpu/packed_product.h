// Packs weights in panels (oneflow_core/packed.h), and unpacks them.
#pragma once

#include "kernels/kernel.h"

namespace oneflow::cpu {

// in: w, f32 or bf16; out: packed bf16.
const char* PackWeight(const KernelArgs& args);
// in: w. out: w packed, and w transposed and packed.
const char* PackWeightBothWays(const KernelArgs& args);

// wide[k,n] = the packed weight as floats.
void UnpackWeight(const void* packed, int64_t k, int64_t n, float* wide);

}  // namespace oneflow::cpu
