#include "kernels/kernel.h"

namespace oneflow {
namespace {

std::vector<Kernel>& OfCpu() {
  static auto* const kernels = new std::vector<Kernel>();
  return *kernels;
}
std::vector<Kernel>& OfCuda() {
  static auto* const kernels = new std::vector<Kernel>();
  return *kernels;
}

}  // namespace

void AddCpuKernel(Kernel kernel) { OfCpu().push_back(kernel); }
void AddCudaKernel(Kernel kernel) { OfCuda().push_back(kernel); }
const std::vector<Kernel>& AddedCpuKernels() { return OfCpu(); }
const std::vector<Kernel>& AddedCudaKernels() { return OfCuda(); }

}  // namespace oneflow
