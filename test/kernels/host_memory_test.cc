#include "kernels/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

// A host of 1,000 KiB that are left, with control groups as a test writes them.
using testing::TestDir;

class HostFilesTest : public ::testing::Test {
 protected:
  HostFilesTest() {
    for (const char* folder : {"proc/self", "groups/a/b", "groups/memory/a/b"}) {
      std::filesystem::create_directories(dir_.File(folder));
    }
    dir_.Write("proc/meminfo", "MemTotal:  2000 kB\nMemAvailable:  1000 kB\n");
  }
  int64_t Available() const { return AvailableHostBytes({dir_.File("proc"), dir_.File("groups")}); }

  const TestDir dir_;
};

TEST_F(HostFilesTest, AHostWithoutGroupsGivesWhatItHasLeft) { EXPECT_EQ(Available(), 1000 * 1024); }

TEST_F(HostFilesTest, AHostThatDoesNotSayHasNoLimit) {
  EXPECT_EQ(AvailableHostBytes({dir_.File("none"), dir_.File("none")}), std::numeric_limits<int64_t>::max());
}

TEST_F(HostFilesTest, AGroupOfVersionTwoGivesLessIfItsLimitIsLess) {
  dir_.Write("proc/self/cgroup", "0::/a/b\n");
  dir_.Write("groups/a/b/memory.max", "500000\n");
  dir_.Write("groups/a/b/memory.current", "300000\n");
  dir_.Write("groups/a/b/memory.stat", "anon 250000\nfile 50000\ninactive_file 40000\nactive_file 10000\n");
  EXPECT_EQ(Available(), 240000) << "cached files give way";
  dir_.Write("groups/a/memory.max", "max\n");
  EXPECT_EQ(Available(), 240000);
  dir_.Write("groups/a/memory.max", "100000\n");
  EXPECT_EQ(Available(), 100000) << "a group is within those around it";
  dir_.Write("groups/a/memory.current", "200000\n");
  EXPECT_EQ(Available(), 0);
  dir_.Write("groups/a/memory.max", "90000000\n");
  dir_.Write("groups/a/b/memory.max", "90000000\n");
  EXPECT_EQ(Available(), 1000 * 1024) << "the host has less than the group";
}

TEST_F(HostFilesTest, AGroupOfVersionOneGivesLessIfItsLimitIsLess) {
  dir_.Write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n");
  dir_.Write("groups/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Available(), 1000 * 1024);
  dir_.Write("groups/memory/a/b/memory.limit_in_bytes", "500000\n");
  dir_.Write("groups/memory/a/b/memory.usage_in_bytes", "300000\n");
  dir_.Write("groups/memory/a/b/memory.stat", "inactive_file 1\ntotal_inactive_file 40000\n");
  EXPECT_EQ(Available(), 240000);
  dir_.Write("groups/memory/memory.limit_in_bytes", "1000\n");
  EXPECT_EQ(Available(), 1000) << "in a container only the outermost may be seen";
}

TEST(TakePagesTest, WhatIsTakenIsThere) {
  constexpr size_t kBytes = (300 << 20) + 5;  // more than one step
  char* const data =
      static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_TRUE(TakePages(data, kBytes));
  std::vector<unsigned char> present(kBytes / sysconf(_SC_PAGESIZE) + 1);
  ASSERT_EQ(mincore(data, kBytes, present.data()), 0);
  EXPECT_THAT(present, ::testing::Each(1));
  munmap(data, kBytes);
}

}  // namespace
}  // namespace oneflow
