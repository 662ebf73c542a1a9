#include "tools/scheduler/placement.h"

#include "gmock/gmock.h"

namespace oneflow {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// "a0 b1": for each process its machine, by letter, and its daemon there.
std::string Placed(const std::vector<Machine>& machines, const std::vector<int>& hosts, int devices) {
  std::string text;
  for (const DaemonIndex at : PlaceGang(machines, {hosts, devices})) {
    absl::StrAppend(&text, text.empty() ? "" : " ", std::string(1, 'a' + at.machine), at.daemon);
  }
  return text;
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
  const std::vector<Machine> machines(500, Machine{17});
  EXPECT_THAT(PlaceGang(machines, {std::vector<int>(1000, 8), 1}), SizeIs(8000));
  EXPECT_THAT(PlaceGang(machines, {std::vector<int>(1001, 8), 1}), IsEmpty());
}

TEST(PlaceGangTest, ASearchAmongHostsThatDifferEnds) {
  // 421 devices on 60 machines of 7: no room, though there is for as many hosts of 3 and of 2 alone.
  std::vector<int> hosts(61, 3);
  hosts.insert(hosts.end(), 119, 2);
  EXPECT_THAT(PlaceGang(std::vector<Machine>(60, Machine{7}), {hosts, 1}), IsEmpty());
}

TEST(WhatLacksTest, NamesTheHostThatIsTooLarge) {
  EXPECT_EQ(WhatLacks({{2}, {1, 1}}, {{1, 4}, 1}, "cpu", Devices::kOffered),
            "host 1 of the plan takes 4 cpu devices; no machine offers more than 2");
  EXPECT_EQ(WhatLacks({{3}}, {{2}, 2}, "cuda", Devices::kFree),
            "host 0 of the plan takes 4 cuda devices, 2 for each process; no machine has more than 2 free");
  EXPECT_EQ(WhatLacks({{1, 1}, {1}}, {{1}, 2}, "cpu", Devices::kFree),
            "host 0 of the plan takes 2 cpu devices, 2 for each process; no daemon has 2 free");
  EXPECT_EQ(WhatLacks({{2, 2}}, {{4}, 4}, "cpu", Devices::kOffered),
            "host 0 of the plan takes 16 cpu devices, 4 for each process; no daemon offers 4");
}

TEST(WhatLacksTest, SaysWhatHostsTakeTogether) {
  EXPECT_EQ(WhatLacks({{3}, {3}}, {{2, 2, 2}, 1}, "cpu", Devices::kOffered),
            "the plan's 3 hosts take 6 cpu devices; 2 machines offer 6, and no host may lie on two");
  EXPECT_EQ(WhatLacks({{1}}, {{1, 1}, 1}, "cpu", Devices::kFree),
            "the plan's 2 hosts take 2 cpu devices; 1 machine has 1 free, and no host may lie on two");
  EXPECT_EQ(WhatLacks({}, {{1}, 1}, "cpu", Devices::kOffered), "no daemon is registered");
}

}  // namespace
}  // namespace oneflow
