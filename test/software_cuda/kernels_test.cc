// What the software device says of kernels that do wrong, one wrong each, and that it says nothing of those that do
// not.
#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "test/software_cuda/device_kit.h"
#include "test/support/cuda/software_device.h"
#include "test/support/names.h"

namespace oneflow::software_cuda {
namespace {

constexpr int kThreads = 64;

// Runs kernel(arguments...) on one block and tells what was found.
template <typename... P, typename... A>
std::vector<std::string> DefectsOf(size_t shared_bytes, void (*kernel)(P...), A... arguments) {
  const Stream stream;
  const cudaLaunchConfig_t config = {
      .gridDim = 1, .blockDim = kThreads, .dynamicSmemBytes = shared_bytes, .stream = stream.get()};
  EXPECT_EQ(cudaLaunchKernelEx(&config, kernel, arguments...), cudaSuccess);
  cudaStreamSynchronize(stream.get());
  return TakeDefects();
}

__global__ void ReverseKernel(const int* from, int* to) {
  __shared__ int values[kThreads];
  values[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = values[kThreads - 1 - threadIdx.x];
}

TEST_F(DeviceTest, KernelsThatDoNoWrongAreLeftAlone) {
  DeviceArray<int> from(kThreads), to(kThreads);
  std::vector<int> values(kThreads);
  std::iota(values.begin(), values.end(), 0);
  from.Set(values);
  EXPECT_THAT(DefectsOf(0, ReverseKernel, from.data(), to.data()), IsEmpty());
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(to.Get(), values);
}

__global__ void NoBarrierKernel(const int* from, int* to) {
  __shared__ int values[kThreads];
  values[threadIdx.x] = from[threadIdx.x];
  to[threadIdx.x] = values[kThreads - 1 - threadIdx.x];
}

TEST_F(DeviceTest, AMissingBarrierIsARaceOrAReadOfNothing) {
  DeviceArray<int> from(kThreads), to(kThreads);
  const auto defects = DefectsOf(0, NoBarrierKernel, from.data(), to.data());
  EXPECT_THAT(defects, ElementsAre(AllOf(HasSubstr("NoBarrierKernel"), HasSubstr("block (0,0,0), thread ("),
                                         HasSubstr("4 bytes of shared memory that "))));
}

__global__ void OneBarrierTooFewKernel(int* to) {
  __shared__ int value;
  for (int i = 0; i < 2; ++i) {
    if (threadIdx.x == 0) value = i;
    __syncthreads();
    to[i * kThreads + threadIdx.x] = value;
  }
}

TEST_F(DeviceTest, WritingWhatOthersStillReadIsARace) {
  DeviceArray<int> to(2 * kThreads);
  EXPECT_THAT(DefectsOf(0, OneBarrierTooFewKernel, to.data()),
              ElementsAre(AllOf(HasSubstr("OneBarrierTooFewKernel"), HasSubstr("with no barrier between"))));
}

__global__ void UnwrittenKernel(bool writes, int* to) {
  __shared__ int values[kThreads];
  if (writes) values[threadIdx.x] = 0;
  to[threadIdx.x] = values[threadIdx.x];
}

TEST_F(DeviceTest, SharedMemoryIsReadAfterItIsWritten) {
  DeviceArray<int> to(kThreads);
  EXPECT_THAT(DefectsOf(0, UnwrittenKernel, false, to.data()),
              ElementsAre(HasSubstr("reads 4 bytes of shared memory that no thread of the block has written")));
}

__global__ void IotaKernel(int* to) { to[threadIdx.x] = static_cast<int>(threadIdx.x); }

TEST_F(DeviceTest, AnArrayThatIsTooShort) {
  DeviceArray<int> to(kThreads - 1);
  EXPECT_THAT(
      DefectsOf(0, IotaKernel, to.data()),
      ElementsAre(AllOf(HasSubstr("IotaKernel"), HasSubstr("block (0,0,0), thread (63,0,0): writes 4 bytes where no "
                                                           "allocation is"))));
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorIllegalAddress) << "errors of kernels stay";
}

struct alignas(8) Two {
  int of[2];
};

__global__ void TwoAtOnceKernel(const int* from, int* to) {
  reinterpret_cast<Two*>(to)[threadIdx.x] = reinterpret_cast<const Two*>(from)[threadIdx.x];
}
__global__ void FourAtOnceKernel(const int* from, int* to) {
  reinterpret_cast<float4*>(to)[threadIdx.x] = reinterpret_cast<const float4*>(from)[threadIdx.x];
}

TEST_F(DeviceTest, AnAddressThatIsNoMultipleOfWhatIsRead) {
  DeviceArray<int> from(4 * kThreads + 4), to(4 * kThreads + 4);
  EXPECT_THAT(DefectsOf(0, TwoAtOnceKernel, from.data() + 2, to.data() + 4), IsEmpty());
  EXPECT_THAT(DefectsOf(0, FourAtOnceKernel, from.data() + 4, to.data()), IsEmpty());
  EXPECT_THAT(
      DefectsOf(0, TwoAtOnceKernel, from.data() + 1, to.data()),
      ElementsAre(AllOf(HasSubstr("TwoAtOnceKernel"), HasSubstr("8 bytes at an address that is 4 beyond a multiple"))));
}

TEST_F(DeviceTest, AnAddressThatIsNoMultipleOfWhatIsWritten) {
  DeviceArray<int> from(4 * kThreads + 4), to(4 * kThreads + 4);
  EXPECT_THAT(
      DefectsOf(0, FourAtOnceKernel, from.data(), to.data() + 2),
      ElementsAre(AllOf(HasSubstr("FourAtOnceKernel"), HasSubstr("at an address that is 8 beyond a multiple"))));
}

TEST_F(DeviceTest, AnArrayThatWasFreed) {
  int* freed = nullptr;
  ASSERT_EQ(cudaMalloc(&freed, kThreads * sizeof(int)), cudaSuccess);
  ASSERT_EQ(cudaFree(freed), cudaSuccess);
  EXPECT_THAT(DefectsOf(0, IotaKernel, freed), ElementsAre(HasSubstr("where no allocation is")));
}

TEST_F(DeviceTest, AnArrayOfTheHost) {
  std::vector<int> host(kThreads);
  EXPECT_THAT(DefectsOf(0, IotaKernel, host.data()), ElementsAre(HasSubstr("writes 4 bytes of the host's memory")));
}

TEST_F(DeviceTest, AnArrayOfAnotherDevice) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  DeviceArray<int> to(kThreads);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_THAT(DefectsOf(0, IotaKernel, to.data()), ElementsAre(HasSubstr("of device 1, running on 0")));
}

__global__ void HalfComesKernel(int* to) {
  if (threadIdx.x < kThreads / 2) __syncthreads();
  to[threadIdx.x] = 0;
}

TEST_F(DeviceTest, ABarrierThatNotAllComeTo) {
  DeviceArray<int> to(kThreads);
  EXPECT_THAT(
      DefectsOf(0, HalfComesKernel, to.data()),
      ElementsAre(AllOf(HasSubstr("HalfComesKernel"), HasSubstr("a meeting that not all come to: thread (0,0,0) "
                                                                "waits for its block, thread (32,0,0) has left"))));
}

__global__ void LanesKernel(unsigned mask, int* to) {
  if (threadIdx.x < 5) to[threadIdx.x] = __shfl_xor_sync(mask, static_cast<int>(threadIdx.x), 1);
}

TEST_F(DeviceTest, AShuffleThatNotAllComeTo) {
  DeviceArray<int> to(kThreads);
  EXPECT_THAT(DefectsOf(0, LanesKernel, 0xffffffffu, to.data()),
              ElementsAre(HasSubstr("thread (0,0,0) waits for its warp, thread (5,0,0) has left")));
}

TEST_F(DeviceTest, AShuffleOfThoseThatCome) {
  DeviceArray<int> to(kThreads);
  EXPECT_THAT(DefectsOf(0, LanesKernel, 0x1fu, to.data()), IsEmpty());
  const std::vector<int> got = to.Get();
  EXPECT_THAT(std::vector<int>(got.begin(), got.begin() + 4), ElementsAre(1, 0, 3, 2));
}

__global__ void CountKernel(unsigned* sum) { atomicAdd(sum, threadIdx.x); }

TEST_F(DeviceTest, AtomicSumsAreNoRaces) {
  DeviceArray<unsigned> sum(1);
  sum.Set({0});
  EXPECT_THAT(DefectsOf(0, CountKernel, sum.data()), IsEmpty());
  EXPECT_THAT(sum.Get(), ElementsAre(kThreads * (kThreads - 1) / 2));
}

}  // namespace
}  // namespace oneflow::software_cuda
