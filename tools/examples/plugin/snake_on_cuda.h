// The kernels of snake.cu.
#pragma once

#include "kernels/kernel.h"

namespace waves {

const char* SnakeOnCuda(const oneflow::KernelArgs& args);
const char* SnakeGradOnCuda(const oneflow::KernelArgs& args);

}  // namespace waves
