#include "tools/control/scheduler/waiting_line.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

int SpareOf(HeldDevices daemon, int devices_per_process) {
  return SparesOf({{1, std::move(daemon)}}, devices_per_process).at(1);
}

TEST(WaitingLineTest, ADeviceIsSpareIfTheFirstHasNoUseForItWhateverEnds) {
  EXPECT_EQ(SpareOf({.offered = 8, .free = 3, .held = {2, 3}}, 4), 0);  // all may be free
  EXPECT_EQ(SpareOf({.offered = 5, .free = 1, .held = {4}}, 4), 1);     // 1 or 5
  EXPECT_EQ(SpareOf({.offered = 3, .free = 3}, 4), 3);                  // too small for ever
  EXPECT_EQ(SpareOf({.offered = 6, .free = 2, .held = {2, 2}}, 4), 0);  // 4 may be
  EXPECT_EQ(SpareOf({.offered = 0, .free = 0}, 1), 0);
}

TEST(WaitingLineTest, SparesAreThoseOfTheWorstCaseOfAll) {
  const int seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    HeldDevices daemon{.free = static_cast<int>(random() % 5)};
    daemon.offered = daemon.free;
    for (int jobs = static_cast<int>(random() % 6); jobs > 0; --jobs) {
      daemon.offered += daemon.held.emplace_back(1 + static_cast<int>(random() % 4));
    }
    const int devices = 1 + static_cast<int>(random() % 5);
    int least = daemon.offered + 1;
    for (unsigned ended = 0; ended < 1u << daemon.held.size(); ++ended) {
      int free = daemon.free;
      for (size_t job = 0; job < daemon.held.size(); ++job) free += (ended >> job & 1) * daemon.held[job];
      least = std::min(least, free % devices);
    }
    EXPECT_EQ(SpareOf(daemon, devices), least);
  }
}

TEST(WaitingLineTest, BehindTheFirstAreItsSparesAndTheMemoryThatItCouldNeverTake) {
  Cluster cluster;
  cluster.offered = {{.devices = {4, 4}, .memory_bytes = 100}};
  cluster.free = {{.devices = {3, 4}, .memory_bytes = 90}};
  cluster.session = {{1, 2}};
  const Gang first{.processes_of_host = {2}, .devices_per_process = 2, .process_bytes = 20};
  const Spares spares = {{1, 1}, {2, 0}};
  // Its four processes, two on each daemon, could take 80.
  EXPECT_THAT(FreeBehind(cluster, cluster.offered, first, &spares)[0].devices, ElementsAre(1, 0));
  EXPECT_EQ(FreeBehind(cluster, cluster.offered, first, &spares)[0].memory_bytes, 10);
  // Devices of the other kind are no use to it.
  EXPECT_THAT(FreeBehind(cluster, cluster.offered, first, nullptr)[0].devices, ElementsAre(3, 4));
  const Gang large{.processes_of_host = {2}, .devices_per_process = 2, .process_bytes = 30};
  EXPECT_EQ(FreeBehind(cluster, cluster.offered, large, &spares)[0].memory_bytes, 0);
}

}  // namespace
}  // namespace oneflow
