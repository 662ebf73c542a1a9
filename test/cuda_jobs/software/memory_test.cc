// What a job says of a device that has less room than it needs: before anything is taken.
#include "test/support/cuda/memory.h"

#include "gmock/gmock.h"
#include "test/laws/layouts_law.h"
#include "test/support/cuda/software_device.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

// On two devices.
class DeviceMemoryTest : public testing::LayoutsLaw {
 protected:
  DeviceMemoryTest() {
    for (const int device : {0, 1}) {  // each has the process' context from here on
      EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    }
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  }

  // With so much free on device 1; and how much is in use on device 0 afterwards beyond what was before.
  absl::Status RunWith(int64_t free, const std::vector<std::string>& more, size_t* taken) {
    const size_t held = software_cuda::BytesOf(1) - software_cuda::BytesInUse(1) - static_cast<size_t>(free);
    EXPECT_TRUE(software_cuda::HoldOn(1, held));
    std::vector<std::string> overrides = {"mesh={dp:2}", "cluster.device=cuda"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const size_t before = software_cuda::BytesInUse(0);
    steps_ = 2;
    const absl::Status status = Run(Mlp(), overrides).status();
    *taken = software_cuda::BytesInUse(0) - before;
    software_cuda::LetGoOn(1, held);
    return status;
  }
};

TEST_F(DeviceMemoryTest, ADeviceWithoutRoomIsToldBeforeAnythingIsTaken) {
  size_t taken = 0;
  // 256 MiB for kernels, and of a communicator of two 544 MiB for reductions and 448 MiB for exchanges.
  const int64_t libraries = int64_t{256 + 544 + 448} << 20;
  EXPECT_THAT(
      RunWith(libraries, {}, &taken),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("rank 1 (cuda:1): the plan takes "),
                     HasSubstr(absl::StrCat(" bytes and libraries about ", libraries, " more, but of the device's ",
                                            software_cuda::BytesOf(1), " bytes ", libraries, " are free")))));
  EXPECT_EQ(taken, 0) << "on the device that has room";
  EXPECT_OK(RunWith(libraries + (int64_t{64} << 20), {}, &taken));
}

TEST_F(DeviceMemoryTest, WhatLibrariesTakeIsTheJobsToSay) {
  size_t taken = 0;
  // Fewer than the plan expects, and as many as the libraries here take.
  const int64_t free = int64_t{600} << 20;
  EXPECT_THAT(RunWith(free, {}, &taken), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("are free")));
  EXPECT_OK(RunWith(free, {"cluster.library_bytes_per_device=0"}, &taken));
}

// Where nobody looks, the library that finds no memory names itself.
TEST_F(DeviceMemoryTest, ALibraryThatFindsNoMemoryEndsTheJob) {
  size_t taken = 0;
  EXPECT_THAT(
      RunWith(int64_t{100} << 20, {"cluster.library_bytes_per_device=0"}, &taken),
      StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr("rank 1 (cuda:1)"), HasSubstr("unhandled cuda error"))));
  EXPECT_EQ(taken, 0);
}

}  // namespace
}  // namespace oneflow
