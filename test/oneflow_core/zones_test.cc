#include "oneflow_core/zones.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"

namespace oneflow {
namespace {

struct Bytes {
  int64_t all = 0, variables = 0;
  int64_t bytes() const { return all; }
  int64_t variable_bytes() const { return variables; }
};

// As messages have them.
struct Sizes {
  std::vector<Bytes> of;
  int zones_size() const { return static_cast<int>(of.size()); }
  const Bytes& zones(int zone) const { return of[zone]; }
  Bytes* mutable_zones(int zone) { return &of[zone]; }
  Bytes* add_zones() { return &of.emplace_back(); }
};

TEST(ZonesTest, ANumberFromOutsideIsAZoneOrNone) {
  for (const ZoneKind& row : kZones) {
    EXPECT_TRUE(IsZone(row.zone));
    EXPECT_EQ(&ZoneKindOf(row.zone), &row);
    EXPECT_STREQ(ZoneName(row.zone), row.name);
  }
  for (const int none : {-1, kNumZones}) {
    EXPECT_FALSE(IsZone(none));
    EXPECT_STREQ(ZoneName(none), "?");
  }
}

TEST(ZonesTest, ZonesBehindTheLastAreEmpty) {
  Sizes sizes;
  EXPECT_EQ(BytesOfZone(sizes, kSharedZone), 0);
  EXPECT_EQ(BytesOfZones(sizes), 0);
  MutableZone(sizes, kSharedZone) = {30, 20};
  EXPECT_EQ(sizes.zones_size(), kSharedZone + 1);
  EXPECT_EQ(BytesOfZone(sizes, kPrivateZone), 0);
  EXPECT_EQ(BytesOfZone(sizes, kSharedZone), 30);
  EXPECT_EQ(VariableBytesOfZone(sizes, kSharedZone), 20);
  MutableZone(sizes, kPrivateZone) = {7, 5};
  EXPECT_EQ(BytesOfZones(sizes), 37);
  EXPECT_EQ(VariableBytesOfZones(sizes), 25);
}

TEST(ZonesTest, TiersTakeNothingOfTheDevice) {
  Sizes sizes;
  MutableZone(sizes, kPrivateZone) = {7, 5};
  MutableZone(sizes, kDiskZone) = {4096, 4096};
  EXPECT_EQ(BytesOfZones(sizes), 7);
  EXPECT_EQ(VariableBytesOfZones(sizes), 5);
  EXPECT_EQ(BytesOfZone(sizes, kDiskZone), 4096);
}

// Peers map what they read, and nobody else may write where acts of a rank put what only they use.
TEST(ZonesTest, PeersDoNotReadTheWorkZone) { EXPECT_FALSE(ZoneKindOf(kWorkZone).peers_read); }

}  // namespace
}  // namespace oneflow
