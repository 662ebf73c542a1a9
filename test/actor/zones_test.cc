#include "actor/zones.h"

#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace oneflow {
namespace {

TEST(ZonesTest, EveryZoneHasItsRowUnderItsOwnNameAndNumber) {
  for (const ZoneKind& row : kZones) {
    EXPECT_EQ(row.name, absl::AsciiStrToLower(pb::Zone_Name(row.zone)));
    EXPECT_EQ(&KindOf(row.zone), &row);
  }
}

// A column that named the field of another zone would let one zone be as large as the other.
TEST(ZonesTest, ARowNamesTheSizesOfItsOwnZone) {
  int64_t all = 0;
  pb::Rank rank;
  const google::protobuf::Descriptor& fields = *rank.GetDescriptor();
  for (const ZoneKind& row : kZones) {
    const int64_t bytes = 1000 * (row.zone + 1), variables = bytes + 1;
    const auto* const size = fields.FindFieldByName(absl::StrCat(row.name, "_bytes"));
    const auto* const of_variables = fields.FindFieldByName(absl::StrCat(row.name, "_variable_bytes"));
    ASSERT_NE(size, nullptr) << row.name;
    ASSERT_NE(of_variables, nullptr) << row.name;
    rank.GetReflection()->SetInt64(&rank, size, bytes);
    rank.GetReflection()->SetInt64(&rank, of_variables, variables);
    EXPECT_EQ(ZoneBytes(rank, row.zone), bytes);
    EXPECT_EQ((rank.*row.variable_bytes)(), variables);
    all += bytes;
  }
  EXPECT_EQ(ZoneBytes(rank), all);
}

// Peers map what they read, and nobody else may write where acts of a rank put what only they use.
TEST(ZonesTest, PeersDoNotReadTheWorkZone) { EXPECT_FALSE(KindOf(kWorkZone).peers_read); }

}  // namespace
}  // namespace oneflow
