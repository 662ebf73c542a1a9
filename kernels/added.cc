#include "kernels/kernel.h"
#include "oneflow_core/growing_table.h"

namespace oneflow {
namespace {

constexpr int kCpu = 0, kCuda = 1;

}  // namespace

void AddCpuKernel(Kernel kernel) { GrowingTable<Kernel, kCpu>().push_back(kernel); }
void AddCudaKernel(Kernel kernel) { GrowingTable<Kernel, kCuda>().push_back(kernel); }
const std::deque<Kernel>& AddedCpuKernels() { return GrowingTable<Kernel, kCpu>(); }
const std::deque<Kernel>& AddedCudaKernels() { return GrowingTable<Kernel, kCuda>(); }

}  // namespace oneflow
