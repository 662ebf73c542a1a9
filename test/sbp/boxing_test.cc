#include "sbp/boxing.h"

#include "absl/strings/str_join.h"
#include "test/sbp/dists.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Per destination: "source[start+extent,...] ...".
std::vector<std::string> Pieces(const BoxingStep& step) {
  std::vector<std::string> result;
  for (const std::vector<BoxingPiece>& pieces : step.pieces) {
    result.push_back(absl::StrJoin(pieces, " ", [](std::string* s, const BoxingPiece& piece) {
      absl::StrAppend(s, piece.source, "[");
      for (size_t d = 0; d < piece.region.start.size(); ++d) {
        absl::StrAppend(s, d == 0 ? "" : ",", piece.region.start[d], "+", piece.region.extent[d]);
      }
      s->append("]");
    }));
  }
  return result;
}

absl::StatusOr<BoxingStep> Step(const TensorType& type, const DistType& from, const DistType& to) {
  return OneBoxingStep(type, from, to, OneHost(8, 1));
}

constexpr DType kF32 = DType::kFloat32;

TEST(BoxingTest, AnAllGatherReadsEverySliceOnce) {
  ASSERT_OK_AND_ASSIGN(const BoxingStep step,
                       Step({kF32, {5}}, Dist("[x=2]{0,1}", "(S(0))"), Dist("[x=2]{0,1}", "(B)")));
  EXPECT_THAT(Pieces(step), ElementsAre("0[0+3] 1[3+2]", "0[0+3] 1[3+2]"));
  EXPECT_EQ(BytesMoved({kF32, {5}}, step), 5 * 4);
}

TEST(BoxingTest, AddendsAreCombinedInTheOrderOfTheirCoordinatesOnEveryRank) {
  ASSERT_OK_AND_ASSIGN(const BoxingStep step,
                       Step({kF32, {4}}, Dist("[x=2]{0,1}", "(P(max))"), Dist("[x=2]{0,1}", "(S(0))")));
  EXPECT_THAT(Pieces(step), ElementsAre("0[0+2] 1[0+2]", "0[2+2] 1[2+2]"));
  EXPECT_EQ(step.reduction, Reduction::kMax);
}

TEST(BoxingTest, NewPartialsKeepWhatIsThereAndAreZeroElsewhere) {
  const DistType p = Dist("[x=2]{0,1}", "(P)");
  ASSERT_OK_AND_ASSIGN(const BoxingStep from_split, Step({kF32, {5}}, Dist("[x=2]{0,1}", "(S(0))"), p));
  EXPECT_THAT(Pieces(from_split), ElementsAre("0[0+3]", "1[3+2]"));
  ASSERT_OK_AND_ASSIGN(const BoxingStep from_copies, Step({kF32, {5}}, Dist("[x=2]{0,1}", "(B)"), p));
  EXPECT_THAT(Pieces(from_copies), ElementsAre("0[0+5]", ""));
  ASSERT_OK_AND_ASSIGN(const BoxingStep elsewhere, Step({kF32, {5}}, p, Dist("[y=3]{2,3,4}", "(P)")));
  EXPECT_THAT(Pieces(elsewhere), ElementsAre("0[0+5] 1[0+5]", "", ""));
  ASSERT_OK_AND_ASSIGN(const BoxingStep matching, Step({kF32, {5}}, p, Dist("[x=2]{2,3}", "(P)")));
  EXPECT_THAT(Pieces(matching), ElementsAre("0[0+5]", "1[0+5]"));
}

TEST(BoxingTest, WhatRanksHaveOfTheirOwnIsReadByItsOwnCoordinate) {
  const char* const mesh = "[x=2,y=2]{0,1,2,3}";
  ASSERT_OK_AND_ASSIGN(const BoxingStep gathered,
                       Step({kF32, {4}}, Dist(mesh, "(P(mean),S(0))"), Dist(mesh, "(P(mean),B)")));
  EXPECT_THAT(Pieces(gathered), ElementsAre("0[0+2] 1[2+2]", "0[0+2] 1[2+2]", "2[0+2] 3[2+2]", "2[0+2] 3[2+2]"));
  ASSERT_OK_AND_ASSIGN(const BoxingStep moved,
                       Step({kF32, {4}}, Dist("[x=2]{0,1}", "(P(mean))"), Dist("[x=2]{5,4}", "(P(mean))")));
  EXPECT_THAT(Pieces(moved), ElementsAre("0[0+4]", "1[0+4]"));
  EXPECT_EQ(BytesMoved({kF32, {4}}, moved), 2 * 16);
  ASSERT_OK_AND_ASSIGN(const BoxingStep copied,
                       Step({kF32, {4}}, Dist("[x=2]{0,1}", "(B)"), Dist("[x=2]{0,1}", "(P(mean))")));
  EXPECT_THAT(Pieces(copied), ElementsAre("0[0+4]", "1[0+4]"));
  // Sums along another axis stay within a coordinate of this one.
  ASSERT_OK_AND_ASSIGN(const std::vector<DistType> path, BoxingPath({kF32, {64, 64}}, Dist(mesh, "(P(mean),P)"),
                                                                    Dist(mesh, "(P(mean),B)"), OneHost(8, 1)));
  for (const DistType& type : path) EXPECT_TRUE(type.sbp[0].is_mean()) << type.ToString();
}

TEST(BoxingTest, WhatRanksHaveOfTheirOwnIsNotReadAsOne) {
  const DistType own = Dist("[x=2]{0,1}", "(P(mean))");
  for (const char* other : {"(B)", "(S(0))", "(P)", "(P(max))"}) {
    EXPECT_THAT(BoxingPath({kF32, {4}}, own, Dist("[x=2]{0,1}", other), OneHost(8, 1)).status(),
                testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("each rank along 'x' has a tensor of its own ([x=2]{0,1}(P(mean)))")))
        << other;
    EXPECT_OK(BoxingPath({kF32, {4}}, Dist("[x=2]{0,1}", other), own, OneHost(8, 1)));
  }
  EXPECT_FALSE(BoxingPath({kF32, {4}}, own, Dist("[y=2]{0,1}", "(P(mean))"), OneHost(8, 1)).ok()) << "another axis";
}

TEST(BoxingTest, EveryRankHoldsTheValueOfANewMaximum) {
  ASSERT_OK_AND_ASSIGN(const BoxingStep step,
                       Step({kF32, {5}}, Dist("[x=2]{0,1}", "(S(0))"), Dist("[x=2]{0,1}", "(P(max))")));
  EXPECT_THAT(Pieces(step), ElementsAre("0[0+3] 1[3+2]", "0[0+3] 1[3+2]"));
}

TEST(BoxingTest, TheNearestCopyIsRead) {
  const Topology three_hosts = *Topology::Create(6, 2, {{.count = 3, .devices = 2}});
  const DistType from = Dist("[x=3]{0,2,5}", "(B)");
  ASSERT_OK_AND_ASSIGN(const BoxingStep step,
                       OneBoxingStep({kF32, {1}}, from, Dist("[y=5]{0,1,3,4,5}", "(B)"), three_hosts));
  EXPECT_THAT(Pieces(step), ElementsAre("0[0+1]", "0[0+1]", "1[0+1]", "2[0+1]", "2[0+1]"));
  const Topology two_hosts = *Topology::Create(6, 2, {{.devices = 4}, {.devices = 2}});
  ASSERT_OK_AND_ASSIGN(const BoxingStep same_host,
                       OneBoxingStep({kF32, {1}}, Dist("[x=2]{5,0}", "(B)"), Dist("[y=1]{3}", "(B)"), two_hosts));
  EXPECT_THAT(Pieces(same_host), ElementsAre("1[0+1]"));
}

// Copies on a part of the mesh, or on the mesh with its hosts in another order.
TEST(BoxingTest, ARankThatHasACopyAtAnotherCoordinateReadsItsOwn) {
  const TensorType type{kF32, {2, 2}};
  for (const auto& [from, to] : {std::pair("[x=2]{0,1}", "[x=2]{1,0}"), {"[x=3]{0,1,2}", "[x=3]{1,2,0}"}}) {
    ASSERT_OK_AND_ASSIGN(const BoxingStep step, Step(type, Dist(from, "(B)"), Dist(to, "(B)")));
    EXPECT_EQ(BytesMoved(type, step), 0) << from << " " << to;
  }
  const DistType home = Dist("[x=2,y=2]{0,1,2,3}", "(B,S(0))");
  ASSERT_OK_AND_ASSIGN(const BoxingStep swapped, Step(type, home, Dist("[x=2,y=2]{2,3,0,1}", "(B,S(0))")));
  EXPECT_EQ(BytesMoved(type, swapped), 0);
  ASSERT_OK_AND_ASSIGN(const BoxingStep shifted, Step(type, home, Dist("[x=2,y=2]{2,3,4,5}", "(B,S(0))")));
  EXPECT_THAT(Pieces(shifted), ElementsAre("2[0+1,0+2]", "3[1+1,0+2]", "0[0+1,0+2]", "1[1+1,0+2]"));
  // Where nobody has two coordinates, each reads at its own, as every rank of a stage does of the stage before it.
  ASSERT_OK_AND_ASSIGN(const BoxingStep stages, Step(type, Dist("[x=2]{0,1}", "(B)"), Dist("[x=2]{2,3}", "(B)")));
  EXPECT_THAT(Pieces(stages), ElementsAre("0[0+2,0+2]", "1[0+2,0+2]"));
}

TEST(BoxingTest, OtherAxesKeepTheirOwnCoordinates) {
  const std::string mesh = "[x=2,y=2]{0,1,2,3}";
  ASSERT_OK_AND_ASSIGN(const BoxingStep step, Step({kF32, {4, 4}}, Dist(mesh, "(P,S(1))"), Dist(mesh, "(S(0),S(1))")));
  EXPECT_THAT(Pieces(step), ElementsAre("0[0+2,0+2] 2[0+2,0+2]", "1[0+2,2+2] 3[0+2,2+2]", "0[2+2,0+2] 2[2+2,0+2]",
                                        "1[2+2,2+2] 3[2+2,2+2]"));
  EXPECT_EQ(step.collective, Collective::kReduceScatter);
}

TEST(BoxingTest, EmptyShardsReadNothing) {
  ASSERT_OK_AND_ASSIGN(const BoxingStep step,
                       Step({kF32, {1}}, Dist("[x=2]{0,1}", "(P)"), Dist("[x=2]{0,1}", "(S(0))")));
  EXPECT_THAT(Pieces(step), ElementsAre("0[0+1] 1[0+1]", ""));
  ASSERT_OK_AND_ASSIGN(const BoxingStep nothing,
                       Step({kF32, {0, 3}}, Dist("[x=2]{0,1}", "(S(1))"), Dist("[x=2]{0,1}", "(B)")));
  EXPECT_THAT(Pieces(nothing), ElementsAre("", ""));
}

TEST(BoxingTest, TheSlowestDestinationIsThePriceOfAStep) {
  const Topology topology = OneHost(2, 1, {.same_host = {1.0, 0.5}});
  const TensorType type{DType::kUInt8, {5}};
  ASSERT_OK_AND_ASSIGN(const BoxingStep step,
                       OneBoxingStep(type, Dist("[x=2]{0,1}", "(S(0))"), Dist("[x=2]{0,1}", "(B)"), topology));
  EXPECT_DOUBLE_EQ(Seconds(type, step, topology), 1.0 + 3 * 0.5);  // rank 1 reads the larger slice
}

TEST(BoxingTest, WhatOneStepCannotDoIsRefusedWithTheReason) {
  const std::string x = "[x=2]{0,1}";
  EXPECT_THAT(Step({kF32, {4}}, Dist(x, "(P)"), Dist(x, "(B)")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("combine 2 addends once for each of 2 copies")));
  EXPECT_THAT(Step({kF32, {4}}, Dist(x, "(P)"), Dist(x, "(P(max))")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("different reductions")));
  EXPECT_THAT(Step({kF32, {4}}, Dist(x, "(S(1))"), Dist(x, "(B)")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("splits dimension 1, but the tensor is [4]")));
  EXPECT_THAT(Step({kF32, {4}}, Dist("[x=2]{0,9}", "(B)"), Dist(x, "(B)")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 9 is not among the 8")));
}

}  // namespace
}  // namespace oneflow
