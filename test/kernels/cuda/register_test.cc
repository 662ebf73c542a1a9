// What can be said of the CUDA kernels without a GPU: which there are, and how a missing device is reported. What they
// compute is checked by the conformance suite where there is one.
#include <set>

#include "gmock/gmock.h"
#include "kernels/device.h"
#include "kernels/kernel.h"
#include "test/support/names.h"
#include "test/support/op_facts.h"

namespace oneflow {
namespace {

std::set<std::string> NamesOf(const KernelTable& table) {
  std::set<std::string> names;
  for (const Kernel& kernel : table.all()) {
    if (testing::CpuOps().count(kernel.op) == 0) names.insert(std::string(kernel.op) + " " + Name(kernel.dtype));
  }
  return names;
}

TEST(CudaKernelsTest, EveryCpuKernelHasACudaTwinAndTheOtherWayRound) {
  const std::set<std::string> cuda = NamesOf(CudaKernels()), cpu = NamesOf(CpuKernels());
  if (cuda.empty()) GTEST_SKIP() << "this build has no CUDA";
  for (const std::string& name : cpu) EXPECT_TRUE(cuda.count(name)) << name << " has no kernel on cuda";
  for (const std::string& name : cuda) EXPECT_TRUE(cpu.count(name)) << name << " has no kernel on cpu";
}

TEST(CudaKernelsTest, EveryKernelCanBeRun) {
  const KernelTable table = CudaKernels();
  for (const Kernel& kernel : table.all()) EXPECT_NE(kernel.run, nullptr) << kernel.op;
}

TEST(CudaDeviceTest, ADeviceThatIsNotThereIsRefusedWithAReason) {
  std::string why;
  EXPECT_EQ(MakeCudaDevice(1000, &why), nullptr);
  EXPECT_THAT(why, Not(IsEmpty()));
  if (!CudaKernels().all().empty()) {
    EXPECT_THAT(why, HasSubstr("cuda:1000: "));
  }
}

}  // namespace
}  // namespace oneflow
