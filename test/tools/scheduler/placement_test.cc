#include "tools/scheduler/placement.h"

#include "gmock/gmock.h"

namespace oneflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PlaceGangTest, GivesEachDaemonOneProcessFirst) {
  EXPECT_THAT(PlaceGang({4, 4, 4}, 3, 2), ElementsAre(0, 1, 2));
  EXPECT_THAT(PlaceGang({4, 4, 4}, 2, 2), ElementsAre(0, 1));
}

TEST(PlaceGangTest, GivesSeveralToADaemonWithRoomAndNumbersThemConsecutively) {
  EXPECT_THAT(PlaceGang({4, 2, 4}, 4, 2), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(PlaceGang({1, 8}, 4, 2), ElementsAre(1, 1, 1, 1));
}

TEST(PlaceGangTest, PlacesAllOrNone) {
  EXPECT_THAT(PlaceGang({1, 1}, 3, 1), IsEmpty());
  EXPECT_THAT(PlaceGang({3, 3}, 2, 4), IsEmpty()) << "the devices of a process are on one daemon";
  EXPECT_THAT(PlaceGang({}, 1, 1), IsEmpty());
}

}  // namespace
}  // namespace oneflow
