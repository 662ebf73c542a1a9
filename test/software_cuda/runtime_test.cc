// Streams, events, copies and errors of the software device, as NVIDIA documents them.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <chrono>
#include <cstring>
#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "test/software_cuda/device_kit.h"
#include "test/support/cuda/memory.h"
#include "test/support/names.h"

namespace oneflow::software_cuda {
namespace {

// Holds a stream until it is let go.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    std::shared_future<void> open = open_.get_future().share();
    EXPECT_EQ(Enqueue(stream, "a gate", [open] { open.wait(); }), cudaSuccess);
  }
  void Open() { open_.set_value(); }

 private:
  std::promise<void> open_;
};

TEST_F(DeviceTest, StreamsDoNotWaitForOneAnother) {
  const Stream held, free;
  Gate gate(held.get());
  EXPECT_EQ(cudaStreamQuery(held.get()), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady) << "it is an answer, and yet the last error";
  EXPECT_EQ(cudaStreamSynchronize(free.get()), cudaSuccess);
  gate.Open();
  EXPECT_EQ(cudaStreamSynchronize(held.get()), cudaSuccess);
}

TEST_F(DeviceTest, AStreamWaitsForAnEventAsItWasRecorded) {
  const Stream first, second;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess) << "nothing was recorded";
  Gate gate(first.get());
  ASSERT_EQ(cudaEventRecord(event, first.get()), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second.get(), event, 0), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(second.get()), cudaErrorNotReady);
  gate.Open();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second.get()), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
}

TEST_F(DeviceTest, BetweenTwoEventsIsTheTimeOfWhatRanBetweenThem) {
  const Stream stream;
  cudaEvent_t begin = nullptr, end = nullptr, untimed = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&begin, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&end, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming), cudaSuccess);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle) << "none is recorded";
  ASSERT_EQ(cudaEventRecord(begin, stream.get()), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(untimed, stream.get()), cudaSuccess);
  Gate gate(stream.get());
  ASSERT_EQ(cudaEventRecord(end, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  gate.Open();
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, untimed), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 15);
}

// What a copy behind a gate delivers when its source changes before the gate opens.
char CopiedBehindAGate(char* source) {
  const Stream stream;
  DeviceArray<char> target(1);
  *source = 1;
  Gate gate(stream.get());
  EXPECT_EQ(cudaMemcpyAsync(target.data(), source, 1, cudaMemcpyHostToDevice, stream.get()), cudaSuccess);
  *source = 2;
  gate.Open();
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  return target.Get()[0];
}

TEST_F(DeviceTest, PageableMemoryIsTakenAtOnceAndPinnedMemoryWhenItsTurnComes) {
  char pageable = 0;
  EXPECT_EQ(CopiedBehindAGate(&pageable), 1);
  char* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 1), cudaSuccess);
  EXPECT_EQ(CopiedBehindAGate(pinned), 2);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(DeviceTest, MemoryIsFullOfSomethingUntilItIsWritten) {
  EXPECT_THAT(DeviceArray<unsigned char>(100).Get(), Each(0xa5));
}

TEST_F(DeviceTest, CopiesKeepWithinAllocations) {
  DeviceArray<char> array(100);
  char host[101];
  EXPECT_EQ(cudaMemcpyAsync(host, array.data(), 101, cudaMemcpyDefault, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host, array.data(), 100, cudaMemcpyHostToDevice, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(array.data() + 1, 0, 100, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(array.data() + 1), cudaErrorInvalidValue);
}

TEST_F(DeviceTest, MemoryIsTakenAndGivenBackAnyNumberOfTimes) {
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < 40'000 && error == cudaSuccess; ++i) {  // more than a process may have mappings
    char* data = nullptr;
    error = cudaMalloc(&data, 1);
    cudaFree(data);
  }
  EXPECT_EQ(error, cudaSuccess);
}

TEST_F(DeviceTest, DevicesHaveOnlySoMuchMemory) {
  char* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, size_t{1} << 36), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "it does not stay";
}

__global__ void NothingKernel() {}

TEST_F(DeviceTest, LaunchesThatNoDeviceCanMakeAreRefused) {
  const Stream stream;
  const auto launch = [&](unsigned blocks, unsigned threads, size_t shared_bytes) {
    const cudaLaunchConfig_t config = {
        .gridDim = blocks, .blockDim = threads, .dynamicSmemBytes = shared_bytes, .stream = stream.get()};
    return cudaLaunchKernelEx(&config, NothingKernel);
  };
  EXPECT_EQ(launch(1, 1024, 48 << 10), cudaSuccess);
  EXPECT_EQ(launch(0, 32, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 1025, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 32, (48 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(NothingKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10), cudaSuccess);
  EXPECT_EQ(launch(1, 32, 100 << 10), cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(NothingKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10),
            cudaErrorInvalidValue);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(launch(1, 32, 0), cudaErrorInvalidResourceHandle) << "the stream is of another device";
}

TEST_F(DeviceTest, AFailedDeviceAnswersEverythingWithItsErrorAndOthersDoNot) {
  const Stream stream;
  EXPECT_EQ(Enqueue(stream.get(), "work", [] { Report("does wrong"); }), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeDefects(), ::testing::ElementsAre("work: does wrong"));
  char* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 1), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "it stays";
  bool ran = false;
  EXPECT_EQ(Enqueue(stream.get(), "more work", [&ran] { ran = true; }), cudaErrorIllegalAddress);
  EXPECT_FALSE(ran);
  ASSERT_NE(cudaSetDevice(1), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(DeviceTest, AFaultIsToldByALaterCallAndStays) {
  const Stream stream;
  bool ran = false;
  FailDeviceAtWork(0, WorkOf(0) + 2, cudaErrorIllegalAddress);
  Gate gate(stream.get());
  EXPECT_EQ(Enqueue(stream.get(), "what fails", [&ran] { ran = true; }), cudaSuccess);
  EXPECT_EQ(Enqueue(stream.get(), "what is behind", [&ran] { ran = true; }), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "it has not happened";
  gate.Open();
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorIllegalAddress);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_FALSE(ran);
}

TEST_F(DeviceTest, WorkThatHangsHoldsItsStreamAndWhoWaitsForTheDevice) {
  const Stream hung, other;
  DeviceArray<char> array(1);
  const int64_t number = WorkOf(0) + 1;
  HangDeviceAtWork(0, number);
  EXPECT_EQ(Enqueue(hung.get(), "what hangs", [] {}), cudaSuccess);
  while (WorkOf(0) < number) std::this_thread::yield();  // else the other stream's work may be the one that hangs
  EXPECT_EQ(Enqueue(other.get(), "work", [] {}), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other.get()), cudaSuccess);
  auto waits = std::async(std::launch::async, [] { return cudaDeviceSynchronize(); });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(cudaStreamQuery(hung.get()), cudaErrorNotReady);
  EXPECT_EQ(waits.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  ForgetErrors();
  EXPECT_EQ(waits.get(), cudaSuccess);
}

TEST_F(DeviceTest, UrgentStreamsHaveTheSmallerNumber) {
  int least = 0, greatest = 0;
  EXPECT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  EXPECT_LT(greatest, least);
  const Stream plain;
  cudaStream_t urgent = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest - 1), cudaSuccess);
  int priority = 0;
  EXPECT_EQ(cudaStreamGetPriority(urgent, &priority), cudaSuccess);
  EXPECT_EQ(priority, greatest) << "what is beyond the range is at its end";
  EXPECT_EQ(cudaStreamGetPriority(plain.get(), &priority), cudaSuccess);
  EXPECT_EQ(priority, least);
  EXPECT_THAT(StreamPriorities(0), ::testing::IsSupersetOf({least, greatest}));
  EXPECT_EQ(cudaStreamDestroy(urgent), cudaSuccess);
}

TEST_F(DeviceTest, LibrariesTakeMemoryAndFailWhereThereIsNone) {
  const auto free_bytes = [] {
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return free;
  };
  ASSERT_EQ(cudaSetDevice(3), cudaSuccess);
  size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_GE(total - free, kContextBytes);
  cublasLtHandle_t products = nullptr;
  cudnnHandle_t convolutions = nullptr;
  EXPECT_EQ(cublasLtCreate(&products), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudnnCreate(&convolutions), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(free_bytes(), free - kCublasLtBytes - kCudnnBytes);
  EXPECT_EQ(cublasLtDestroy(products), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudnnDestroy(convolutions), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(free_bytes(), free);
  ASSERT_TRUE(HoldOn(3, free - 1));
  EXPECT_EQ(cublasLtCreate(&products), CUBLAS_STATUS_ALLOC_FAILED);
  EXPECT_EQ(cudnnCreate(&convolutions), CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
  LetGoOn(3, free - 1);
}

TEST_F(DeviceTest, AFailedDeviceKeepsNobodyWaiting) {
  const Stream stream;
  cudaEvent_t before = nullptr, after = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&before, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&after, cudaEventDisableTiming), cudaSuccess);
  Gate gate(stream.get());
  EXPECT_EQ(Enqueue(stream.get(), "work", [] { Report("does wrong"); }), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(before, stream.get()), cudaSuccess);
  gate.Open();
  EXPECT_EQ(cudaEventSynchronize(before), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventRecord(after, stream.get()), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventSynchronize(after), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventQuery(after), cudaErrorIllegalAddress);
  TakeDefects();
}

TEST_F(DeviceTest, WorkOfALibraryKeepsToItsOperands) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  DeviceArray<float> far(1);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const Stream stream;
  DeviceArray<float> array(8);
  const float* const data = array.data();
  EXPECT_EQ(Enqueue(stream.get(), "a product",
                    [data, far = far.data()] {
                      EXPECT_TRUE(CheckOperands({{"x", data, 16, false}, {"y", data + 4, 16, true}}));
                      EXPECT_FALSE(CheckOperands({{"x", data, 20, false}, {"y", data + 4, 16, true}}));
                      EXPECT_FALSE(CheckOperands({{"y", data + 1, 32, false}}));
                      EXPECT_FALSE(CheckOperands({{"z", far, 4, false}}));
                      EXPECT_TRUE(CheckOperands({{"z", far, 4, false, true}}));
                    }),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeDefects(),
              ::testing::ElementsAre("a product: y overlaps x", "a product: y, 32 bytes, do not lie in an allocation",
                                     "a product: z, 4 bytes, lie on device 1, the work is on 0"));
}

using RuntimeDeathTest = DeviceTest;

// In a process of its own, where the device has no context yet.
TEST_F(RuntimeDeathTest, AContextThatFindsNoMemoryIsRefusedToEveryCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto refused = [] {
    constexpr int kDevice = 2;
    const size_t all = BytesOf(kDevice);
    if (!HoldOn(kDevice, all) || cudaSetDevice(kDevice) != cudaErrorMemoryAllocation) return 1;
    char* data = nullptr;
    if (cudaMalloc(&data, 1) != cudaErrorMemoryAllocation) return 2;
    LetGoOn(kDevice, all);
    return cudaSetDevice(kDevice) == cudaSuccess ? 0 : 3;
  };
  EXPECT_EXIT(std::_Exit(refused()), ::testing::ExitedWithCode(0), "");
}

TEST_F(RuntimeDeathTest, TheHostDoesNotTouchDeviceMemory) {
  if (!HostIsKeptOut()) GTEST_SKIP() << "this processor has no protection keys";
  DeviceArray<char> array(1);
  EXPECT_DEATH(*static_cast<volatile char*>(array.data()) = 1, "");
}

}  // namespace
}  // namespace oneflow::software_cuda
