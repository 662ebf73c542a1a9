#include "oneflow_core/mesh.h"

#include <algorithm>
#include <set>

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(MeshTest, NumbersRanksWithTheLastAxisFastest) {
  ASSERT_OK_AND_ASSIGN(const Mesh mesh, Mesh::Create({{"pp", 2}, {"dp", 2}, {"tp", 3}}));
  EXPECT_EQ(mesh.size(), 12);
  EXPECT_EQ(mesh.AxisSize("tp"), 3);
  EXPECT_EQ(mesh.AxisSize("cp"), 1);
  ASSERT_OK_AND_ASSIGN(const Placement stage, mesh.Place({{"pp", 1}}));
  EXPECT_EQ(stage.ToString(), "[dp=2,tp=3]{6,7,8,9,10,11}");
  ASSERT_OK_AND_ASSIGN(const Placement column, mesh.Place({{"tp", 2}, {"cp", 0}}));
  EXPECT_EQ(column.ToString(), "[pp=2,dp=2]{2,5,8,11}");
  ASSERT_OK_AND_ASSIGN(const Placement one, mesh.Place({{"pp", 0}, {"dp", 1}, {"tp", 0}}));
  EXPECT_EQ(one.ToString(), "[]{3}");
}

TEST(MeshTest, RefusesCoordinatesOutsideIt) {
  ASSERT_OK_AND_ASSIGN(const Mesh mesh, Mesh::Create({{"dp", 2}}));
  EXPECT_THAT(mesh.Place({{"dp", 2}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dp=2: the mesh has 2")));
  EXPECT_THAT(mesh.Place({{"pp", 1}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pp=1: the mesh has 1")));
}

TEST(MeshTest, RefusesAxesThatAreEmptyUnnamedOrDouble) {
  EXPECT_THAT(Mesh::Create({{"dp", 0}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("size 0")));
  EXPECT_THAT(Mesh::Create({{"", 2}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no name")));
  EXPECT_THAT(Mesh::Create({{"dp", 2}, {"dp", 2}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(Mesh::Create({{"dp", 1 << 20}, {"tp", 1 << 20}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^24 ranks")));
}

TEST(PlacementTest, CoordinatesAndIndicesAreInverse) {
  const Placement placement({{"dp", 2}, {"tp", 3}}, {10, 11, 12, 13, 14, 15});
  EXPECT_THAT(placement.Coordinates(5), ElementsAre(1, 2));
  for (int i = 0; i < placement.size(); ++i) EXPECT_EQ(placement.IndexAt(placement.Coordinates(i)), i);
  EXPECT_EQ(placement.IndexOf(13), 3);
  EXPECT_EQ(placement.IndexOf(3), -1);
}

TEST(PlacementTest, FindsItsRanksWhetherTheyAreARegularGridOrNot) {
  const std::vector<Placement> placements = {
      Placement(),
      Placement({{"dp", 2}, {"tp", 3}}, {10, 11, 12, 13, 14, 15}),
      Placement({{"tp", 3}, {"dp", 2}}, {0, 4, 8, 1, 5, 9}),        // the outer axis is the nearer one
      Placement({{"dp", 2}, {"one", 1}, {"tp", 2}}, {1, 2, 5, 6}),  // with gaps
      Placement({{"a", 2}, {"b", 3}}, {0, 2, 4, 3, 5, 7}),          // distances that do not nest
      Placement({{"x", 4}}, {7, 1, 2, 9}),                          // no distance
  };
  for (const Placement& placement : placements) {
    for (int rank = -2; rank < 20; ++rank) {
      const auto it = std::find(placement.ranks().begin(), placement.ranks().end(), rank);
      const int expected = it == placement.ranks().end() ? -1 : static_cast<int>(it - placement.ranks().begin());
      EXPECT_EQ(placement.IndexOf(rank), expected) << placement.ToString() << " rank " << rank;
    }
  }
}

TEST(PlacementTest, TheOrderOfRegularGridsIsThatOfTheirRanks) {
  std::vector<Placement> placements;
  for (int first : {0, 1, 4}) {
    for (int outer : {1, 2, 3, 6}) {
      for (int inner : {1, 2, 5}) {
        const int ranks[] = {first, first + inner, first + outer, first + outer + inner};
        if (std::set<int>(ranks, ranks + 4).size() < 4) continue;
        for (const char* name : {"dp", "tp"}) {
          placements.push_back(Placement({{name, 2}, {"x", 2}}, std::vector<int>(ranks, ranks + 4)));
        }
      }
    }
  }
  for (const Placement& a : placements) {
    for (const Placement& b : placements) {
      const bool by_text = std::make_pair(a.ranks(), a.axes()[0].name) < std::make_pair(b.ranks(), b.axes()[0].name);
      EXPECT_EQ(a < b, by_text) << a.ToString() << " " << b.ToString();
      EXPECT_EQ(a == b, a.ToString() == b.ToString());
    }
  }
}

TEST(PlacementTest, ReadsBackFromItsText) {
  for (const std::string text : {"[]{0}", "[]{7}", "[dp=2]{1,0}", "[dp=2,tp=2]{4,5,6,7}"}) {
    ASSERT_OK_AND_ASSIGN(const Placement placement, Placement::Parse(text));
    EXPECT_EQ(placement.ToString(), text);
  }
}

TEST(PlacementTest, RefusesMalformedTexts) {
  const BadText cases[] = {{"", "not of the form"},
                           {"[dp=2]", "not of the form"},
                           {"[dp=2]{0,1", "not of the form"},
                           {"[dp]{0}", "'dp' is not of the form dp=2"},
                           {"[=2]{0,1}", "'=2' is not of the form dp=2"},
                           {"[dp=0]{}", "'dp=0' is not of the form dp=2"},
                           {"[dp=x]{0}", "'dp=x' is not of the form dp=2"},
                           {"[dp=2]{0,x}", "'x' is not a rank"},
                           {"[dp=2]{0,-1}", "'-1' is not a rank"},
                           {"[]{}", "'' is not a rank"},
                           {"[dp=2]{0}", "the axes make 2 ranks, but 1 are listed"},
                           {"[dp=2]{3,3}", "a rank is listed twice"},
                           {"[a=65536,b=65536]{0}", "more than 2^24 ranks"}};
  for (const BadText& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_THAT(Placement::Parse(c.text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(DeviceTest, ReadsBackFromItsTextAndRefusesOthers) {
  for (const std::string text : {"cpu:0", "cuda:12"}) {
    ASSERT_OK_AND_ASSIGN(const Device device, Device::Parse(text));
    EXPECT_EQ(device.ToString(), text);
  }
  for (const std::string text : {"", "cpu", "cpu:", "cpu:-1", "cpu:x", "gpu:0", "0"}) {
    EXPECT_THAT(Device::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("device '"))) << text;
  }
}

TEST(DistTypeTest, SaysWhereAndHow) {
  EXPECT_EQ((DistType{Placement({{"dp", 2}}, {0, 1}), {Sbp::Split(0)}}).ToString(), "[dp=2]{0,1}(S(0))");
}

}  // namespace
}  // namespace oneflow
