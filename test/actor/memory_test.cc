#include "actor/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/host_memory.h"
#include "oneflow_core/zones.h"
#include "test/actor/test_device.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(SharedMemoryTest, ShowsAReaderWhatItsOwnerWrites) {
  ASSERT_OK_AND_ASSIGN(SharedMemory owner, SharedMemory::Create(8192));
  ASSERT_OK_AND_ASSIGN(SharedMemory reader, SharedMemory::Map(getpid(), owner.fd(), 8192));
  EXPECT_EQ(reader.data()[5000], 0);
  owner.data()[5000] = 42;
  EXPECT_EQ(reader.data()[5000], 42);
}

TEST(SharedMemoryTest, RefusesWhatIsNotTheAnnouncedFile) {
  ASSERT_OK_AND_ASSIGN(SharedMemory owner, SharedMemory::Create(8192));
  EXPECT_THAT(
      SharedMemory::Map(getpid(), owner.fd(), 4096),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("8192 bytes where a sealed memory file of 4096")));
  EXPECT_THAT(SharedMemory::Map(getpid(), 1 << 20, 8192),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/proc/")));
  const int unsealed = memfd_create("unsealed", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(unsealed, 8192), 0);
  EXPECT_THAT(SharedMemory::Map(getpid(), unsealed, 8192),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("sealed")));
  close(unsealed);
}

TEST(SharedMemoryTest, CannotBeShrunkUnderItsReaders) {
  ASSERT_OK_AND_ASSIGN(SharedMemory owner, SharedMemory::Create(8192));
  EXPECT_NE(ftruncate(owner.fd(), 0), 0);
}

TEST(SharedMemoryTest, TakesAllOfItsMemoryAtOnce) {
  constexpr int64_t kBytes = 10 << 20;
  ASSERT_OK_AND_ASSIGN(SharedMemory owner, SharedMemory::Create(kBytes));
  struct stat info = {};
  ASSERT_EQ(fstat(owner.fd(), &info), 0);
  EXPECT_EQ(info.st_blocks * 512, kBytes);
}

// A little more than the host has left: Linux would map that, and end whoever touches it.
TEST(JobMemoryTest, SaysThatTheHostHasTooLittleBeforeItIsTouched) {
  const int64_t more = AvailableHostBytes() + (256 << 20);
  pb::Rank priv, shared;
  MutableZone(priv, kPrivateZone).set_bytes(more);
  MutableZone(shared, kSharedZone).set_bytes(more);
  const std::unique_ptr<DeviceContext> device = MakeCpuDevice(1);
  JobMemory memory(2);
  EXPECT_THAT(memory.Allocate(0, priv, *device),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       MatchesRegex(absl::StrCat("private memory of ", more,
                                                 " bytes cannot be taken: the host has [0-9]+ left"))));
  EXPECT_THAT(memory.Allocate(1, shared, *device),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       MatchesRegex(absl::StrCat("shared memory of ", more,
                                                 " bytes cannot be taken: the host has [0-9]+ left"))));
}

TEST(JobMemoryTest, GivesEveryRankItsZones) {
  TestDevice device;
  pb::Rank sizes;
  MutableZone(sizes, kPrivateZone).set_bytes(100);
  MutableZone(sizes, kSharedZone).set_bytes(4096);
  JobMemory memory(3);
  ASSERT_OK(memory.Allocate(0, sizes, device));
  ASSERT_OK(memory.Allocate(1, pb::Rank(), device));
  EXPECT_NE(memory.Base(0, kPrivateZone), nullptr);
  EXPECT_EQ(memory.HostMayTouch(0, kPrivateZone), device.host_accessible());
  EXPECT_EQ(memory.HostMayTouch(0, kSharedZone), device.host_accessible());
  ASSERT_NE(memory.file(0, kSharedZone), nullptr);
  EXPECT_EQ(memory.Base(0, kSharedZone), memory.file(0, kSharedZone)->data());
  EXPECT_EQ(memory.Base(1, kPrivateZone), nullptr);
  EXPECT_EQ(memory.Base(1, kSharedZone), nullptr);
  ASSERT_OK(memory.MapPeer(2, kSharedZone, getpid(), memory.file(0, kSharedZone)->fd(), 4096));
  memory.Base(0, kSharedZone)[7] = 3;
  EXPECT_EQ(memory.Base(2, kSharedZone)[7], 3);
}

TEST(JobMemoryTest, ADiskTierHasAddressesAndNoMemory) {
  TestDevice device;
  pb::Rank sizes;
  MutableZone(sizes, kHostZone).set_bytes(100);
  MutableZone(sizes, kDiskZone).set_bytes(3 * kFileBlock);
  JobMemory memory(1, ::testing::TempDir());
  ASSERT_OK(memory.Allocate(0, sizes, device));
  EXPECT_TRUE(memory.HostMayTouch(0, kHostZone));
  EXPECT_FALSE(memory.HostMayTouch(0, kDiskZone));
  ASSERT_NE(memory.disk(0), nullptr);
  EXPECT_TRUE(memory.disk(0)->Holds(memory.Base(0, kDiskZone) + 2 * kFileBlock));
  EXPECT_FALSE(memory.disk(0)->Holds(memory.Base(0, kHostZone)));
}

}  // namespace
}  // namespace oneflow
