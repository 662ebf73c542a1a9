#include "tools/control/scheduler/placement.h"

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

// Of machines' daemons, in devices.
std::vector<Machine> MachinesOf(const std::vector<std::vector<int>>& devices) {
  std::vector<Machine> machines;
  for (const std::vector<int>& of_daemons : devices) machines.push_back({of_daemons});
  return machines;
}

// "a0 b1": for each process its machine, by letter, and its daemon there.
std::string Placed(const std::vector<Machine>& machines, const Gang& gang) {
  std::string text;
  for (const DaemonIndex at : PlaceGang(machines, gang)) {
    absl::StrAppend(&text, text.empty() ? "" : " ", std::string(1, 'a' + at.machine), at.daemon);
  }
  return text;
}

std::string Placed(const std::vector<std::vector<int>>& machines, const std::vector<int>& hosts, int devices) {
  return Placed(MachinesOf(machines), Gang{hosts, devices});
}

TEST(PlaceGangTest, AHostsProcessesGoToOneMachineAndSpreadOverItsDaemons) {
  EXPECT_EQ(Placed({{4, 4, 4}}, {3}, 2), "a0 a1 a2");
  EXPECT_EQ(Placed({{4, 2, 4}}, {4}, 2), "a0 a0 a1 a2") << "numbered consecutively on each";
  EXPECT_EQ(Placed({{1, 8}}, {4}, 2), "a1 a1 a1 a1");
  EXPECT_EQ(Placed({{1, 1}, {2}}, {2}, 1), "a0 a1");
  EXPECT_EQ(Placed({{1}, {1}, {2}}, {2}, 1), "c0 c0") << "though a and b have room for one each";
}

TEST(PlaceGangTest, HostsGoToDifferentMachinesAsLongAsThereAreAny) {
  EXPECT_EQ(Placed({{4}, {4}}, {1, 1}, 1), "a0 b0");
  EXPECT_EQ(Placed({{4}, {4}}, {1, 1, 1}, 1), "a0 b0 a0");
  EXPECT_EQ(Placed({{4}, {1}}, {2, 2}, 1), "a0 a0 a0 a0") << "b has no room for a host";
  EXPECT_EQ(Placed({{8}, {2, 2}, {1}}, {2, 2, 1}, 2), "a0 a0 b0 b1 a0");
}

TEST(PlaceGangTest, ASmallHostDoesNotTakeThePlaceOfALargeOne) {
  EXPECT_EQ(Placed({{2}, {1}}, {1, 2}, 1), "b0 a0 a0");
  EXPECT_EQ(Placed({{6}, {4}}, {4, 3, 3}, 1), "b0 b0 b0 b0 a0 a0 a0 a0 a0 a0") << "4 on a would leave no room for 3";
}

TEST(PlaceGangTest, PlacesAllOrNone) {
  EXPECT_EQ(Placed({{1, 1}}, {3}, 1), "");
  EXPECT_EQ(Placed({{3, 3}}, {2}, 4), "") << "the devices of a process are on one daemon";
  EXPECT_EQ(Placed({{2}, {2}}, {3}, 1), "") << "no host lies on two machines";
  EXPECT_EQ(Placed({{3}, {3}}, {2, 2, 2}, 1), "");
  EXPECT_EQ(Placed({}, {1}, 1), "");
}

TEST(PlaceGangTest, AThousandHostsFindTheLastRoomOrHearThatThereIsNone) {
  const std::vector<Machine> machines(500, Machine{{17}});
  EXPECT_THAT(PlaceGang(machines, {std::vector<int>(1000, 8), 1}), SizeIs(8000));
  EXPECT_THAT(PlaceGang(machines, {std::vector<int>(1001, 8), 1}), IsEmpty());
}

TEST(PlaceGangTest, ASearchAmongHostsThatDifferEnds) {
  // 421 devices on 60 machines of 7: no room, though there is for as many hosts of 3 and of 2 alone.
  std::vector<int> hosts(61, 3);
  hosts.insert(hosts.end(), 119, 2);
  EXPECT_THAT(PlaceGang(std::vector<Machine>(60, Machine{{7}}), {hosts, 1}), IsEmpty());
}

TEST(WhatLacksTest, NamesTheHostThatIsTooLarge) {
  EXPECT_EQ(WhatLacks(MachinesOf({{2}, {1, 1}}), {{1, 4}, 1}, "cpu", Devices::kOffered),
            "host 1 of the plan takes 4 cpu devices; no machine offers more than 2");
  EXPECT_EQ(WhatLacks(MachinesOf({{3}}), {{2}, 2}, "cuda", Devices::kFree),
            "host 0 of the plan takes 4 cuda devices, 2 for each process; no machine has more than 2 free");
  EXPECT_EQ(WhatLacks(MachinesOf({{1, 1}, {1}}), {{1}, 2}, "cpu", Devices::kFree),
            "host 0 of the plan takes 2 cpu devices, 2 for each process; no daemon has 2 free");
  EXPECT_EQ(WhatLacks(MachinesOf({{2, 2}}), {{4}, 4}, "cpu", Devices::kOffered),
            "host 0 of the plan takes 16 cpu devices, 4 for each process; no daemon offers 4");
}

TEST(WhatLacksTest, SaysWhatHostsTakeTogether) {
  EXPECT_EQ(WhatLacks(MachinesOf({{3}, {3}}), {{2, 2, 2}, 1}, "cpu", Devices::kOffered),
            "the plan's 3 hosts take 6 cpu devices; 2 machines offer 6, and no host may lie on two");
  EXPECT_EQ(WhatLacks(MachinesOf({{1}}), {{1, 1}, 1}, "cpu", Devices::kFree),
            "the plan's 2 hosts take 2 cpu devices; 1 machine has 1 free, and no host may lie on two");
  EXPECT_EQ(WhatLacks(MachinesOf({}), {{1}, 1}, "cpu", Devices::kOffered), "no daemon is registered");
}

// --- Memory ---

TEST(PlaceGangTest, AMachineTakesNoMoreProcessesThanItHasMemoryFor) {
  const Machine small = {{4, 4}, /*memory_bytes=*/30}, large = {{4}, /*memory_bytes=*/100};
  const auto taking = [](const std::vector<int>& hosts, int64_t bytes) { return Gang{hosts, 1, bytes}; };
  EXPECT_EQ(Placed({small, large}, taking({3}, 10)), "a0 a0 a1");
  EXPECT_EQ(Placed({small, large}, taking({4}, 10)), "b0 b0 b0 b0") << "which has fewer devices, and more memory";
  EXPECT_EQ(Placed({small, large}, taking({1, 1, 1}, 30)), "a0 b0 b0");
  EXPECT_EQ(Placed({small, large}, taking({5}, 10)), "") << "neither has both";
  EXPECT_EQ(Placed({{{8}}}, taking({8}, int64_t{1} << 60)), "a0 a0 a0 a0 a0 a0 a0 a0") << "it does not say what it has";
}

TEST(PlaceGangTest, ADevicesOwnMemoryIsEnoughOrNot) {
  Gang gang = {{2}, 2};
  gang.device_bytes = 80;
  EXPECT_EQ(Placed({{{8}, kUnknownBytes, 40}, {{4}, kUnknownBytes, 80}}, gang), "b0 b0");
}

TEST(WhatLacksTest, SaysWhichMemoryIsShort) {
  const std::vector<Machine> machines = {{{4}, int64_t{24'000'000'000}}, {{4}, int64_t{16'000'000'000}}};
  Gang gang = {{2}, 1, int64_t{15'050'000'000}};
  EXPECT_EQ(WhatLacks(machines, gang, "cpu", Devices::kOffered),
            "host 0 of the plan takes 30.1 GB of memory; no machine offers more than 24.0 GB");
  EXPECT_EQ(WhatLacks(machines, gang, "cpu", Devices::kFree),
            "host 0 of the plan takes 30.1 GB of memory; no machine has more than 24.0 GB free");
  gang.processes_of_host = {1, 1, 1};
  EXPECT_EQ(
      WhatLacks(machines, gang, "cpu", Devices::kOffered),
      "the plan's 3 hosts take 3 cpu devices; 2 machines offer 8 with memory for 2 processes, and no host may lie "
      "on two");
  gang.device_bytes = int64_t{90'000'000'000};
  EXPECT_EQ(WhatLacks({{{8}, kUnknownBytes, int64_t{80'000'000'000}}}, gang, "cuda", Devices::kOffered),
            "the plan takes 90.0 GB of a device's memory; no device offers more than 80.0 GB");
}

}  // namespace
}  // namespace oneflow
