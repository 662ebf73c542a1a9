#include "tools/control/daemon/machine.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "tools/control/process/temp_dir.h"

namespace oneflow {
namespace {

class MachineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Make("machine-test"));
    files_.host.proc = dir_->path() + "/proc";
    files_.host.cgroups = dir_->path() + "/groups";
    files_.sys = dir_->path() + "/sys";
  }
  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = dir_->path() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::unique_ptr<TempDir> dir_;
  MachineFiles files_;
};

TEST_F(MachineTest, ReadsMemoryAndWhatALimitLeavesOfIt) {
  EXPECT_EQ(LookAtMachine(files_).memory_bytes, 0) << "nothing says";
  Write("proc/meminfo", "MemTotal:       2000 kB\nMemAvailable:   100 kB\n");
  EXPECT_EQ(LookAtMachine(files_).memory_bytes, 2'048'000);
  Write("proc/self/cgroup", "0::/a\n");
  Write("groups/a/memory.max", "500000\n");
  EXPECT_EQ(LookAtMachine(files_).memory_bytes, 500'000);
}

TEST_F(MachineTest, CountsPartsOfMemory) {
  EXPECT_EQ(LookAtMachine(files_).memory_nodes, 1);
  for (const char* entry : {"node0", "node1", "power"}) {
    Write(std::string("sys/devices/system/node/") + entry + "/cpulist", "0\n");
  }
  Write("sys/devices/system/node/online", "0-1\n");
  EXPECT_EQ(LookAtMachine(files_).memory_nodes, 2);
}

TEST_F(MachineTest, ListsLinksThatAreUp) {
  Write("sys/class/net/lo/operstate", "unknown\n");
  Write("sys/class/net/eth1/operstate", "down\n");
  Write("sys/class/net/eth0/operstate", "up\n");
  Write("sys/class/net/eth0/speed", "25000\n");
  Write("sys/class/net/veth/operstate", "up\n");
  Write("sys/class/net/veth/speed", "-1\n");
  Write("sys/class/net/ens5/operstate", "up\n");
  Write("sys/class/net/ens5/device/infiniband/mlx5_1/node_type", "1\n");  // of which this is the network device
  Write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  Write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  Write("sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  Write("sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n");
  Write("sys/class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet\n");
  Write("sys/class/infiniband/mlx5_1/ports/1/rate", "2.5 Gb/sec (1X SDR)\n");
  Write("sys/class/infiniband/mlx5_2/ports/1/state", "1: DOWN\n");
  std::vector<std::string> found;
  for (const pb::NetworkLink& link : LookAtMachine(files_).links) {
    found.push_back(absl::StrCat(link.name(), " ", link.kind(), " ", link.mbit_per_s()));
  }
  EXPECT_THAT(found, ::testing::ElementsAre("mlx5_0 infiniband 200000", "mlx5_1 roce 2500", "eth0 ethernet 25000",
                                            "veth ethernet 0"));
}

// A program of this name, which a daemon would find before the driver's.
class NvidiaSmiTest : public MachineTest {
 protected:
  void SetUp() override {
    MachineTest::SetUp();
    path_ = std::getenv("PATH");
    setenv("PATH", absl::StrCat(dir_->path(), "/bin:/usr/bin:/bin").c_str(), 1);
  }
  void TearDown() override { setenv("PATH", path_.c_str(), 1); }
  void Install(const std::string& script) const {
    Write("bin/nvidia-smi", absl::StrCat("#!/bin/sh\n", script, "\n"));
    std::filesystem::permissions(dir_->path() + "/bin/nvidia-smi", std::filesystem::perms::owner_all);
  }

 private:
  std::string path_;
};

TEST_F(NvidiaSmiTest, CountsDevicesAndTellsTheLeastMemory) {
  Install("echo 81559; echo 40960");
  ASSERT_OK_AND_ASSIGN(const CudaDevices found, FindCudaDevices());
  EXPECT_EQ(found.count, 2);
  EXPECT_EQ(found.memory_bytes, int64_t{40960} << 20);
}

TEST_F(NvidiaSmiTest, WithoutADriverThereAreNone) {
  ASSERT_OK_AND_ASSIGN(const CudaDevices found, FindCudaDevices());
  EXPECT_EQ(found.count, 0);
}

TEST_F(NvidiaSmiTest, TellsWhatADriverSaysThatDoesNotWork) {
  Install("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18");
  EXPECT_THAT(FindCudaDevices(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Driver/library version mismatch")));
  Install("echo '[N/A]'");
  EXPECT_THAT(FindCudaDevices(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("[N/A]")));
}

}  // namespace
}  // namespace oneflow
