#include "sbp/lattice.h"

#include "test/sbp/dists.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(LatticeTest, PlacementsOfAMeshAreLatticesAndShuffledOnesAreNot) {
  for (const char* text : {"[]{5}", "[x=4]{0,1,2,3}", "[x=2,y=2]{4,5,6,7}", "[y=2,x=2]{0,2,1,3}", "[x=3]{1,4,7}",
                           "[x=1,y=2]{0,9}", "[x=2,y=2]{0,1,8,9}"}) {
    EXPECT_TRUE(Lattice::Of(Place(text)).has_value()) << text;
  }
  for (const char* text : {"[x=3]{0,1,3}", "[x=2]{1,0}", "[x=2,y=2]{0,1,2,4}", "[x=2,y=3]{0,1,2,3,4,6}"}) {
    EXPECT_FALSE(Lattice::Of(Place(text)).has_value()) << text;
  }
}

TEST(LatticeTest, TheCoordinatesWithinRanksAreThoseThatCountingFinds) {
  int boxes = 0;
  for (const char* text : {"[]{5}", "[x=6]{0,1,2,3,4,5}", "[x=3,y=4]{0,1,2,3,4,5,6,7,8,9,10,11}",
                           "[x=3,y=2]{0,3,1,4,2,5}", "[x=2,y=2,z=2]{0,1,4,5,16,17,20,21}", "[x=4]{3,7,11,15}"}) {
    const Placement placement = Place(text);
    const std::optional<Lattice> lattice = Lattice::Of(placement);
    ASSERT_TRUE(lattice.has_value());
    for (int first = 0; first <= 22; ++first) {
      for (int end = first; end <= 23; ++end) {
        SCOPED_TRACE(absl::StrCat(text, " within ", first, " to ", end));
        const std::optional<CoordinateBox> box = lattice->Within({first, end});
        int64_t expected = 0, in_box = 0;
        for (int i = 0; i < placement.size(); ++i) {
          const int rank = placement.ranks()[i];
          const std::vector<int> at = placement.Coordinates(i);
          bool inside = box.has_value() && Count(*box) > 0;
          for (size_t a = 0; a < at.size() && inside; ++a) {
            inside = (*box)[a].first <= at[a] && at[a] < (*box)[a].second;
          }
          const bool wanted = first <= rank && rank < end;
          expected += wanted;
          in_box += inside;
          EXPECT_EQ(inside, wanted && box.has_value());
        }
        if (!box.has_value()) continue;
        ++boxes;
        EXPECT_EQ(Count(*box), expected);
        EXPECT_EQ(in_box, expected);
      }
    }
  }
  EXPECT_GT(boxes, 1000);
}

TEST(LatticeTest, WhatHostsCutUnevenlyIsNoBox) {
  const std::optional<Lattice> lattice = Lattice::Of(Place("[x=2,y=3]{0,1,2,3,4,5}"));
  EXPECT_FALSE(lattice->Within({0, 4}).has_value());
  EXPECT_TRUE(lattice->Within({0, 3}).has_value());
  EXPECT_TRUE(lattice->Within({4, 6}).has_value());
}

}  // namespace
}  // namespace oneflow
