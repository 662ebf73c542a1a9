// What cuDNN itself makes of the attention that we ask it for, on a machine without a GPU: it compiles kernels for a
// device that is described to it (driver.cc). That they compute the right numbers is the conformance suite's to say,
// on a GPU.
#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/cuda/cudnn_attention.h"
#include "test/support/names.h"

// cudnn-frontend looks at the current device to know what is supported: this is the one that is described.
extern "C" cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  properties->major = 9;
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}

namespace oneflow::cuda {

void PrintTo(const AttentionProblem& x, std::ostream* out) {
  *out << (x.backward ? "gradient" : "forward") << " [" << x.batch << "," << x.tokens << "," << x.heads << " heads of "
       << x.head_size << ", " << x.keys << " keys in " << x.kv_heads << "] " << Name(x.dtype)
       << (x.causal ? " causal" : "") << " window " << x.window;
}

namespace {

// An H100 as the library writes one.
constexpr const char* kHopper = R"({
    "cudaDeviceId": 0, "deviceId": 0, "deviceName": "NVIDIA H100", "deviceVer": 900, "driverVer": 13000,
    "runtimeVer": 13000, "cudaVersion": 13000, "totalGlobalMem": 85899345920, "multiProcessorCount": 132,
    "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64], "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1,
    "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "l2CacheSize": 52428800})";

class CudnnAttentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cudnnGetVersion() < 90800) GTEST_SKIP() << "cuDNN " << cudnnGetVersion() << " takes no description of a device";
  }
};

// Those of GPT-2, of a model of 7 billion parameters, of BERT, of the quickstart's on two ranks of tp, of a long text,
// and odd ones.
TEST_F(CudnnAttentionTest, HopperHasAKernelForTheAttentionOfModels) {
  const std::vector<AttentionProblem> problems = {
      {.batch = 4, .tokens = 1024, .heads = 12, .head_size = 64},
      {.batch = 1, .tokens = 4096, .heads = 32, .head_size = 128},
      {.batch = 8, .tokens = 128, .heads = 12, .head_size = 64},
      {.batch = 16, .tokens = 128, .heads = 2, .head_size = 32},
      {.batch = 1, .tokens = 16384, .heads = 4, .head_size = 128},
      {.batch = 3, .tokens = 77, .heads = 5, .head_size = 40},
      {.batch = 2, .tokens = 1000, .heads = 3, .head_size = 96},
      {.batch = 2, .tokens = 4096, .heads = 32, .kv_heads = 8, .head_size = 128},
      {.batch = 2, .tokens = 1024, .heads = 6, .kv_heads = 1, .head_size = 64},
      {.batch = 1, .tokens = 4096, .heads = 8, .kv_heads = 2, .head_size = 128, .window = 1024},
      {.batch = 2, .tokens = 128, .keys = 512, .heads = 8, .head_size = 64}};
  for (AttentionProblem problem : problems) {
    for (const bool backward : {false, true}) {
      for (const bool causal : {false, true}) {
        if (causal ? problem.keys > 0 && problem.keys != problem.tokens : problem.window > 0) continue;
        problem.backward = backward;
        problem.causal = causal;
        if (problem.keys == 0) problem.keys = problem.tokens;
        if (problem.kv_heads == 0) problem.kv_heads = problem.heads;
        problem.dtype = causal ? DType::kBFloat16 : DType::kFloat16;
        problem.scale = 0.125f;
        SCOPED_TRACE(::testing::PrintToString(problem));
        std::string why;
        const auto attention = MakeCudnnAttentionFor(kHopper, problem, &why);
        ASSERT_NE(attention, nullptr) << why;
        EXPECT_THAT(attention->name(), HasSubstr("eng"));
        EXPECT_LE(static_cast<int64_t>(attention->workspace_bytes()), ExpectedScratch(problem, CallOf(problem)));
      }
    }
  }
}

TEST_F(CudnnAttentionTest, SaysWhyItHasNone) {
  std::string why;
  const AttentionProblem odd = {
      .batch = 2, .tokens = 64, .keys = 64, .heads = 2, .kv_heads = 2, .head_size = 36, .scale = 1};
  EXPECT_EQ(MakeCudnnAttentionFor(kHopper, odd, &why), nullptr);
  EXPECT_NE(why, "");
  why = "";
  EXPECT_EQ(MakeCudnnAttentionFor("{}", odd, &why), nullptr);
  EXPECT_NE(why, "");
}

// All calls are alike, and as large as the limit allows.
TEST(AttentionCallTest, CallsDivideWhatIsAsked) {
  for (const int64_t batch : {0, 1, 3, 12}) {
    for (const int64_t heads : {0, 1, 5, 32}) {
      for (const int64_t tokens : {1, 1000, 4096, 30000}) {
        for (const int64_t group : {1, 8}) {
          if (heads % group != 0) continue;
          const AttentionProblem problem = {.backward = true,
                                            .batch = batch,
                                            .tokens = tokens,
                                            .keys = tokens,
                                            .heads = heads,
                                            .kv_heads = heads / group,
                                            .head_size = 64};
          SCOPED_TRACE(::testing::PrintToString(problem));
          const AttentionCall call = CallOf(problem);
          if (batch == 0 || heads == 0) continue;
          EXPECT_EQ(batch % call.samples, 0);
          EXPECT_EQ(heads % call.heads, 0);
          EXPECT_EQ(call.heads % group, 0) << "heads that share keys are computed together";
          EXPECT_TRUE(call.heads == heads || call.samples == 1);
          EXPECT_TRUE(ExpectedScratch(problem, call) <= kMostScratch || (call.samples == 1 && call.heads == group));
        }
      }
    }
  }
  EXPECT_EQ(CallOf({.backward = true, .batch = 4, .tokens = 1024, .keys = 1024, .heads = 12, .kv_heads = 12}).samples,
            4);
  EXPECT_EQ(CallOf({.backward = true, .batch = 1, .tokens = 4096, .keys = 4096, .heads = 32, .kv_heads = 32}).heads, 4);
}

}  // namespace
}  // namespace oneflow::cuda
