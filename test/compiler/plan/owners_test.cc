#include "compiler/plan/owners.h"

#include <map>

#include "gmock/gmock.h"

namespace oneflow {
namespace {

const Placement kMesh({{"dp", 2}, {"tp", 2}}, {0, 1, 2, 3});

DistType Laid(std::vector<Sbp> sbp) { return {kMesh, NdSbp(sbp.begin(), sbp.end())}; }

TEST(OwnersTest, CopiesAreNumberedAlongTheAxesThatDoNotSplit) {
  const DistType split = Laid({Sbp::Broadcast(), Sbp::Split(0)});
  EXPECT_EQ(NumCopies(split), 2);
  EXPECT_EQ(CopyAt(split, 0), 0);
  EXPECT_EQ(CopyAt(split, 1), 0) << "another part of the same copy";
  EXPECT_EQ(CopyAt(split, 2), 1);
  const DistType whole = Laid({Sbp::Broadcast(), Sbp::Broadcast()});
  EXPECT_EQ(NumCopies(whole), 4);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(CopyAt(whole, rank), rank);
  EXPECT_EQ(NumCopies(Laid({Sbp::Split(0), Sbp::Split(1)})), 1);
}

// Weights and biases take turns in a model: to hand out every second one would give all weights to one rank.
TEST(OwnersTest, EveryCopyWritesAboutAsMuch) {
  Owners owners;
  const DistType dist = Laid({Sbp::Broadcast(), Sbp::Split(0)});
  std::map<int, int64_t> bytes;
  for (int layer = 0; layer < 24; ++layer) {
    for (const int64_t rows : {512, 2}) {
      bytes[owners.Next({DType::kFloat32, {rows, 8}}, dist)] += rows / 2 * 8 * 4;
    }
  }
  EXPECT_EQ(bytes[0] + bytes[1], 24 * (256 + 1) * 8 * 4);
  EXPECT_EQ(bytes[0], bytes[1]);
  int loads = 0;
  owners.ForEachLoad([&](const Placement& placement, int64_t most) {
    ++loads;
    EXPECT_EQ(placement, kMesh);
    EXPECT_EQ(most, bytes[0]);
  });
  EXPECT_EQ(loads, 1);
}

}  // namespace
}  // namespace oneflow
