// The law of boxing: whatever the two types, the tensor arrives exactly, and the bytes are those of the volume table.
#include <random>

#include "absl/strings/str_join.h"
#include "sbp/boxing.h"
#include "test/sbp/dists.h"
#include "test/support/boxing_reference.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

std::vector<std::string> PathTexts(const std::vector<DistType>& path) {
  std::vector<std::string> texts;
  for (const DistType& type : path) texts.push_back(type.ToString());
  return texts;
}

// Every SBP of the placement's axes for a tensor of that shape.
std::vector<NdSbp> AllSbps(const Placement& placement, const Shape& shape, Reduction reduction) {
  std::vector<Sbp> choices = {Sbp::Broadcast(), Sbp::Partial(reduction)};
  for (int d = 0; d < shape.rank(); ++d) choices.push_back(Sbp::Split(d));
  std::vector<NdSbp> result = {{}};
  for (int a = 0; a < placement.num_axes(); ++a) {
    std::vector<NdSbp> longer;
    for (const NdSbp& sbp : result) {
      for (const Sbp& choice : choices) {
        longer.push_back(sbp);
        longer.back().push_back(choice);
      }
    }
    result = std::move(longer);
  }
  return result;
}

// Follows the path with real numbers. Returns the bytes moved.
absl::StatusOr<int64_t> Follow(const TensorType& type, const DistType& from, const DistType& to,
                               const Topology& topology) {
  std::vector<float> logical(type.shape.count());
  for (size_t i = 0; i < logical.size(); ++i) logical[i] = static_cast<float>((i * 37 + 5) % 101) - 50;
  Shards shards = Scatter(type.shape, from, logical);
  OF_ASSIGN_OR_RETURN(const std::vector<DistType> path, BoxingPath(type, from, to, topology));
  if ((from == to) != path.empty() || (!path.empty() && path.back() != to)) {
    return absl::InternalError("the path does not end where it should");
  }
  DistType here = from;
  int64_t bytes = 0;
  double seconds = 0;
  for (const DistType& next : path) {
    if (next == here) return absl::InternalError(absl::StrCat("a step from ", here.ToString(), " to itself"));
    OF_ASSIGN_OR_RETURN(const BoxingStep step, OneBoxingStep(type, here, next, topology));
    OF_ASSIGN_OR_RETURN(shards, ApplyBoxing(type.shape, step, shards));
    OF_ASSIGN_OR_RETURN_AT(const std::vector<float> result, Assemble(type.shape, next, shards), next.ToString());
    if (result != logical) return absl::InternalError(absl::StrCat("wrong values at ", next.ToString()));
    bytes += BytesMoved(type, step);
    seconds += Seconds(type, step, topology);
    here = next;
  }
  const double predicted = BoxingSeconds(type, from, to, topology);
  if (std::abs(predicted - seconds) > 1e-12) {
    return absl::InternalError(absl::StrCat("BoxingSeconds says ", predicted, ", the steps take ", seconds));
  }
  return bytes;
}

struct PlacementPair {
  std::string from, to;
};

TEST(BoxingLawTest, EveryPairOfTypesKeepsTheTensor) {
  const PlacementPair kPlacements[] = {
      {"[x=2]{0,1}", "[x=2]{0,1}"},
      {"[x=3]{0,1,2}", "[x=3]{0,1,2}"},
      {"[x=4]{0,1,2,3}", "[x=4]{0,1,2,3}"},
      {"[x=2,y=2]{0,1,2,3}", "[x=2,y=2]{0,1,2,3}"},
      {"[x=2,y=3]{0,1,2,3,4,5}", "[x=2,y=3]{0,1,2,3,4,5}"},
      {"[x=2]{0,1}", "[x=3]{2,3,4}"},                // disjoint
      {"[x=2,y=2]{0,1,2,3}", "[x=2,y=2]{4,5,6,7}"},  // disjoint, matching axes
      {"[x=4]{0,1,2,3}", "[x=2,y=2]{0,1,2,3}"},      // the same ranks in another hierarchy
      {"[x=2,y=2]{0,1,2,3}", "[z=4]{0,1,2,3}"},
      {"[x=2,y=2]{0,1,2,3}", "[y=2,x=2]{0,2,1,3}"},  // the same grid, axes exchanged
      {"[x=4]{0,1,2,3}", "[x=2]{1,2}"},              // subset
      {"[x=2]{1,2}", "[x=2,y=2]{0,1,2,3}"},          // superset
      {"[x=2,y=2]{0,1,2,3}", "[]{5}"},               // a single rank
      {"[]{5}", "[x=2,y=2]{0,1,2,3}"},
      {"[x=3]{0,1,2}", "[x=3]{2,0,4}"},      // overlapping, other order
      {"[x=2,y=2]{0,1,2,3}", "[y=2]{1,2}"},  // an axis that matches, at other coordinates
      {"[x=2,y=2]{0,1,2,3}", "[y=3]{1,2,3}"},
      {"[x=2,y=2]{0,1,2,3}", "[x=2,y=2]{2,3,4,5}"},  // the same axes, ranks with other coordinates
      {"[x=1,y=2]{0,1}", "[x=1,y=2]{0,1}"},          // an axis of one rank
      {"[x=2,y=2,z=2]{0,1,2,3,4,5,6,7}", "[x=2,y=2,z=2]{0,1,2,3,4,5,6,7}"},
      {"[x=2,y=2,z=2]{0,1,2,3,4,5,6,7}", "[x=3]{5,6,7}"},
      {"[x=2,y=3]{0,1,2,3,4,5}", "[x=2,y=2,z=2]{0,1,2,3,4,5,6,7}"},
  };
  const Topology topology = OneHost(8, 2);
  for (const PlacementPair& placements : kPlacements) {
    for (const Shape& shape : {Shape{5, 3}, Shape{4, 4}, Shape{7}, Shape{1, 2}, Shape{}, Shape{0, 3}}) {
      for (Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
        const Placement from_placement = Place(placements.from), to_placement = Place(placements.to);
        // Thousands of pairs on three axes; one shape that nothing divides says it all.
        const bool many = from_placement.num_axes() + to_placement.num_axes() > 4;
        if (many && !(shape == Shape{5, 3})) continue;
        for (const NdSbp& from_sbp : AllSbps(from_placement, shape, reduction)) {
          for (const NdSbp& to_sbp : AllSbps(to_placement, shape, reduction)) {
            const DistType from{from_placement, from_sbp}, to{to_placement, to_sbp};
            ASSERT_OK(Follow({DType::kFloat32, shape}, from, to, topology))
                << shape.ToString() << " from " << from.ToString() << " to " << to.ToString();
          }
        }
      }
    }
  }
}

TEST(BoxingLawTest, EveryPairOfTypesKeepsTheTensorBetweenHosts) {
  for (const char* ranks : {"[x=3,y=2]{0,1,2,3,4,5}", "[x=2,y=3]{0,1,2,3,4,5}", "[x=6]{0,1,2,3,4,5}"}) {
    const Placement placement = Place(ranks);
    const Topology topology = *Topology::Create(6, 1, {{.count = 3, .devices = 2}});
    for (const Shape& shape : {Shape{5, 3}, Shape{3, 4}, Shape{2}}) {
      for (const NdSbp& from_sbp : AllSbps(placement, shape, Reduction::kSum)) {
        for (const NdSbp& to_sbp : AllSbps(placement, shape, Reduction::kSum)) {
          const DistType from{placement, from_sbp}, to{placement, to_sbp};
          ASSERT_OK(Follow({DType::kFloat32, shape}, from, to, topology))
              << shape.ToString() << " from " << from.ToString() << " to " << to.ToString();
        }
      }
    }
  }
}

TEST(BoxingLawTest, RandomPairsOnUpToFourAxesKeepTheTensor) {
  const uint32_t seed = 20240611;
  std::mt19937 random(seed);
  const Placement kPlacements[] = {
      Place("[x=2,y=2,z=2]{0,1,2,3,4,5,6,7}"), Place("[z=2,y=3,x=2]{11,10,9,8,7,6,5,4,3,2,1,0}"),
      Place("[w=2,x=2,y=2,z=2]{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}"), Place("[y=2]{3,9}")};
  const Topology topology = OneHost(16, 4);
  const auto pick = [&](const Shape& shape) {
    DistType type{kPlacements[random() % 4], {}};
    for (int a = 0; a < type.placement.num_axes(); ++a) {
      const int choice = static_cast<int>(random() % (shape.rank() + 2));
      type.sbp.push_back(choice == 0   ? Sbp::Broadcast()
                         : choice == 1 ? Sbp::Partial(Reduction::kMin)
                                       : Sbp::Split(choice - 2));
    }
    return type;
  };
  for (int i = 0; i < 400; ++i) {
    const Shape shape{static_cast<int64_t>(random() % 9), 1 + static_cast<int64_t>(random() % 9)};
    const DistType from = pick(shape), to = pick(shape);
    ASSERT_OK(Follow({DType::kFloat32, shape}, from, to, topology))
        << "seed " << seed << ", pair " << i << ": " << shape.ToString() << " from " << from.ToString() << " to "
        << to.ToString();
  }
}

// Bytes that any S->S must move: what a rank needs and does not have.
int64_t Missing(const TensorType& type, const DistType& from, const DistType& to) {
  int64_t elements = 0;
  for (int i = 0; i < to.placement.size(); ++i) {
    const Region need = ShardRegion(type.shape, to, i);
    elements += need.count();
    const int own = from.placement.IndexOf(to.placement.ranks()[i]);
    if (own >= 0) elements -= Intersect(need, ShardRegion(type.shape, from, own)).count();
  }
  return elements * static_cast<int64_t>(SizeOf(type.dtype));
}

TEST(BoxingLawTest, BytesOnTheSameDevicesAreThoseOfTheTable) {
  for (int p = 2; p <= 4; ++p) {
    for (const Shape& shape : {Shape{5, 3}, Shape{12, 24}, Shape{7, 9}, Shape{1, 2}, Shape{3}, Shape{}}) {
      const TensorType type{DType::kFloat32, shape};
      const int64_t t = type.num_bytes();
      std::vector<int> ranks(p);
      for (int r = 0; r < p; ++r) ranks[r] = r;
      const Placement placement({{"x", p}}, ranks);
      const Topology topology = OneHost(p, 1);
      for (const NdSbp& from_sbp : AllSbps(placement, shape, Reduction::kSum)) {
        for (const NdSbp& to_sbp : AllSbps(placement, shape, Reduction::kSum)) {
          const Sbp a = from_sbp[0], b = to_sbp[0];
          const DistType from{placement, from_sbp}, to{placement, to_sbp};
          SCOPED_TRACE(absl::StrCat(type.ToString(), " from ", from.ToString(), " to ", to.ToString()));
          int64_t expected = 0;  // S->S the same, S->P, B->P, B->S, B->B, P->P
          if (a.is_split() && b.is_split() && a != b) expected = Missing(type, from, to);
          if (a.is_split() && b.is_broadcast()) expected = (p - 1) * t;
          if (a.is_partial() && b.is_split()) expected = (p - 1) * t;
          if (a.is_partial() && b.is_broadcast()) expected = 2 * (p - 1) * t;
          ASSERT_OK_AND_ASSIGN(const int64_t bytes, Follow(type, from, to, topology));
          EXPECT_EQ(bytes, expected);
          if (a.is_split() && b.is_split() && a != b && shape == Shape({12, 24})) {
            EXPECT_EQ(bytes * p, (p - 1) * t);
          }
        }
      }
    }
  }
}

TEST(BoxingLawTest, BytesBetweenDisjointDevicesAreThoseOfTheTable) {
  const Topology topology = OneHost(8, 2);
  for (int p1 = 1; p1 <= 4; ++p1) {
    for (int p2 = 1; p2 <= 4; ++p2) {
      for (const Shape& shape : {Shape{5, 3}, Shape{12, 24}, Shape{1, 2}, Shape{}}) {
        const TensorType type{DType::kFloat32, shape};
        const int64_t t = type.num_bytes();
        std::vector<int> producers, consumers;
        for (int r = 0; r < p1; ++r) producers.push_back(r);
        for (int r = 0; r < p2; ++r) consumers.push_back(4 + r);
        const Placement from_placement({{"x", p1}}, producers), to_placement({{"x", p2}}, consumers);
        for (const NdSbp& from_sbp : AllSbps(from_placement, shape, Reduction::kSum)) {
          for (const NdSbp& to_sbp : AllSbps(to_placement, shape, Reduction::kSum)) {
            const Sbp a = from_sbp[0], b = to_sbp[0];
            const DistType from{from_placement, from_sbp}, to{to_placement, to_sbp};
            SCOPED_TRACE(absl::StrCat(type.ToString(), " from ", from.ToString(), " to ", to.ToString()));
            int64_t expected = t;  // S->S, S->P, B->S, B->P
            if (!a.is_partial() && b.is_broadcast()) expected = p2 * t;
            if (a.is_partial() && !b.is_broadcast()) expected = p1 * t;
            if (a.is_partial() && b.is_broadcast()) expected = (p1 + p2 - 1) * t;
            ASSERT_OK_AND_ASSIGN(const int64_t bytes, Follow(type, from, to, topology));
            EXPECT_EQ(bytes, expected);
          }
        }
      }
    }
  }
}

TEST(BoxingPathTest, AnAllReduceIsAReduceScatterAndAnAllGatherOverTheBestDimension) {
  const std::string x = "[x=4]{0,1,2,3}";
  ASSERT_OK_AND_ASSIGN(const auto even,
                       BoxingPath({DType::kFloat32, {8, 8}}, Dist(x, "(P)"), Dist(x, "(B)"), OneHost(4, 1)));
  EXPECT_THAT(PathTexts(even), ElementsAre(x + "(S(0))", x + "(B)"));
  ASSERT_OK_AND_ASSIGN(const auto uneven,
                       BoxingPath({DType::kFloat32, {5000, 4}}, Dist(x, "(P)"), Dist(x, "(B)"), OneHost(4, 1)));
  EXPECT_THAT(PathTexts(uneven), ElementsAre(x + "(S(0))", x + "(B)"));
  ASSERT_OK_AND_ASSIGN(const auto wide,
                       BoxingPath({DType::kFloat32, {5, 4000}}, Dist(x, "(P)"), Dist(x, "(B)"), OneHost(4, 1)));
  EXPECT_THAT(PathTexts(wide), ElementsAre(x + "(S(1))", x + "(B)"));
}

TEST(BoxingPathTest, AScalarIsReducedAtCoordinateZero) {
  const std::string mesh = "[x=2,y=2]{0,1,2,3}";
  ASSERT_OK_AND_ASSIGN(const auto path,
                       BoxingPath({DType::kFloat32, {}}, Dist(mesh, "(P,B)"), Dist(mesh, "(B,B)"), OneHost(4, 1)));
  EXPECT_THAT(PathTexts(path), ElementsAre("[y=2]{0,1}(B)", mesh + "(B,B)"));
}

TEST(BoxingPathTest, ATensorWithoutAPartForEveryRankIsReducedAtCoordinateZeroToo) {
  const std::string x = "[x=4]{0,1,2,3}";
  ASSERT_OK_AND_ASSIGN(const auto path,
                       BoxingPath({DType::kFloat32, {3, 2}}, Dist(x, "(P)"), Dist(x, "(B)"), OneHost(4, 1)));
  EXPECT_THAT(PathTexts(path), ElementsAre("[]{0}()", x + "(B)"));
}

TEST(BoxingPathTest, AReductionInsideASplitOfTheSameDimensionStaysAmongItsRanks) {
  const std::string mesh = "[dp=2,tp=2]{0,1,2,3}";
  const TensorType bias{DType::kFloat32, {128}};
  const DistType from = Dist(mesh, "(P,S(0))"), to = Dist(mesh, "(B,S(0))");
  ASSERT_OK_AND_ASSIGN(const auto path, BoxingPath(bias, from, to, OneHost(4, 1)));
  EXPECT_THAT(PathTexts(path), ElementsAre("[tp=2,dp=2]{0,2,1,3}(S(0),S(0))", mesh + "(B,S(0))"));
  ASSERT_OK_AND_ASSIGN(const int64_t bytes, Follow(bias, from, to, OneHost(4, 1)));
  EXPECT_EQ(bytes, 2 * bias.num_bytes());  // 2(p-1) times half the tensor, in each of two groups
}

TEST(BoxingPathTest, OnTwoAxesReductionsCostNoMoreThanAxisByAxis) {
  const std::string mesh = "[dp=2,tp=2]{0,1,2,3}";
  const TensorType type{DType::kFloat32, {8, 8}};
  const int64_t t = type.num_bytes();
  const struct {
    std::string from, to;
    int64_t most;
  } kCases[] = {
      {"(P,S(1))", "(B,S(1))", 2 * t},  // an all-reduce of a half in each of two groups
      {"(P,S(0))", "(B,S(0))", 2 * t}, {"(S(0),P)", "(S(0),B)", 2 * t}, {"(P,B)", "(B,B)", 4 * t},
      {"(P,B)", "(S(0),B)", 2 * t},    {"(P,B)", "(B,S(0))", 2 * t},  // cut first, which is free
      {"(P,P)", "(B,B)", 6 * t},                                      // one all-reduce of four
      {"(P,P)", "(S(0),S(0))", 3 * t}, {"(P,P)", "(B,P)", 4 * t},
  };
  for (const auto& c : kCases) {
    ASSERT_OK_AND_ASSIGN(const int64_t bytes, Follow(type, Dist(mesh, c.from), Dist(mesh, c.to), OneHost(4, 1)));
    EXPECT_LE(bytes, c.most) << c.from << " to " << c.to;
  }
}

// Bytes of the way that cross between hosts.
int64_t Crossing(const TensorType& type, const DistType& from, const Topology& topology,
                 const std::vector<DistType>& path) {
  int64_t bytes = 0;
  DistType at = from;
  for (const DistType& next : path) {
    const BoxingStep step = *OneBoxingStep(type, at, next, topology);
    for (size_t i = 0; i < step.pieces.size(); ++i) {
      for (const BoxingPiece& piece : step.pieces[i]) {
        const int source = at.placement.ranks()[piece.source], rank = next.placement.ranks()[i];
        if (topology.HostOf(source) != topology.HostOf(rank)) bytes += piece.region.count() * 4;
      }
    }
    at = next;
  }
  return bytes;
}

// Two hosts of four ranks, x between them: a quarter of the tensor crosses in each direction and for each rank, instead
// of all of it.
TEST(BoxingPathTest, BetweenHostsAnAllReduceIsHierarchical) {
  const std::string mesh = "[x=2,y=4]{0,1,2,3,4,5,6,7}";
  const TensorType type{DType::kFloat32, {64, 24}};
  const int64_t t = type.num_bytes();
  const Topology two = *Topology::Create(8, 4, {{.count = 2, .devices = 4}});
  const DistType from = Dist(mesh, "(P,P)"), to = Dist(mesh, "(B,B)");
  ASSERT_OK_AND_ASSIGN(const auto path, BoxingPath(type, from, to, two));
  EXPECT_THAT(PathTexts(path), ElementsAre(mesh + "(P,S(0))", "[y=4,x=2]{0,4,1,5,2,6,3,7}(S(0),S(0))",
                                           mesh + "(B,S(0))", mesh + "(B,B)"));
  EXPECT_EQ(Crossing(type, from, two, path), 2 * t);
  ASSERT_OK_AND_ASSIGN(const int64_t bytes, Follow(type, from, to, two));
  EXPECT_EQ(bytes, 2 * (8 - 1) * t) << "in total as much as at once";
  const Topology one = OneHost(8, 4);
  ASSERT_OK_AND_ASSIGN(const auto flat, BoxingPath(type, from, to, one));
  EXPECT_THAT(flat, SizeIs(2));
}

// One axis over two hosts has two factors, so that what holds of two axes holds of it: between hosts 1 part of 4.
TEST(BoxingPathTest, OneAxisOverTwoHostsIsReducedHierarchically) {
  const std::string dp = "[dp=8]{0,1,2,3,4,5,6,7}", factored = "[dp_hosts=2,dp_inside=4]{0,1,2,3,4,5,6,7}";
  const TensorType type{DType::kFloat32, {640, 24}};
  const int64_t t = type.num_bytes();
  const Topology two = *Topology::Create(8, 4, {{.count = 2, .devices = 4}}), one = OneHost(8, 4);
  const struct {
    std::string from, to;
    std::vector<std::string> path;
    int64_t flat, crossing;
  } kCases[] = {
      {"(P)",
       "(B)",
       {factored + "(P,S(0))", "[dp_inside=4,dp_hosts=2]{0,4,1,5,2,6,3,7}(S(0),S(0))", factored + "(B,S(0))",
        dp + "(B)"},
       8 * t,
       2 * t},
      {"(P)", "(S(0))", {factored + "(P,S(0))", dp + "(S(0))"}, 4 * t, t},
      {"(S(0))", "(B)", {factored + "(B,S(0))", dp + "(B)"}, 4 * t, t},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.from + " to " + c.to);
    const DistType from = Dist(dp, c.from), to = Dist(dp, c.to);
    ASSERT_OK_AND_ASSIGN(const auto path, BoxingPath(type, from, to, two));
    EXPECT_THAT(PathTexts(path), ElementsAreArray(c.path));
    ASSERT_OK(Follow(type, from, to, two));
    EXPECT_EQ(Crossing(type, from, two, path), c.crossing);
    ASSERT_OK_AND_ASSIGN(const auto flat, BoxingPath(type, from, to, one));
    EXPECT_EQ(Crossing(type, from, two, flat), c.flat);
    EXPECT_EQ(flat.size(), c.from == "(P)" && c.to == "(B)" ? 2u : 1u);
  }
}

TEST(BoxingPathTest, HostsThatCutAnAxisUnevenlyLeaveItWhole) {
  const std::string dp = "[dp=6]{0,1,2,3,4,5}";
  const TensorType type{DType::kFloat32, {640, 24}};
  ASSERT_OK_AND_ASSIGN(const Topology topology, Topology::Create(6, 1, {{.devices = 4}, {.devices = 2}}));
  for (const auto& [a, b] : {std::pair("(P)", "(B)"), {"(P)", "(S(0))"}, {"(S(0))", "(B)"}}) {
    ASSERT_OK_AND_ASSIGN(const auto path, BoxingPath(type, Dist(dp, a), Dist(dp, b), topology));
    for (const DistType& on_the_way : path) EXPECT_EQ(on_the_way.placement, Place(dp)) << on_the_way.ToString();
    ASSERT_OK(Follow(type, Dist(dp, a), Dist(dp, b), topology));
  }
}

TEST(BoxingPathTest, FactorsOfAnAxisMeanWhatTheAxisMeans) {
  const std::string dp = "[dp=8]{0,1,2,3,4,5,6,7}", factored = "[dp_hosts=2,dp_inside=4]{0,1,2,3,4,5,6,7}";
  const Topology topology = *Topology::Create(8, 2, {{.count = 2, .devices = 4}});
  for (const Shape& shape : {Shape{16, 3}, Shape{10, 3}, Shape{}, Shape{1}}) {
    for (const NdSbp& whole : AllSbps(Place(dp), shape, Reduction::kSum)) {
      for (const NdSbp& parts : AllSbps(Place(factored), shape, Reduction::kSum)) {
        const DistType a{Place(dp), whole}, b{Place(factored), parts};
        for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
          ASSERT_OK(Follow({DType::kFloat32, shape}, from, to, topology))
              << shape.ToString() << " from " << from.ToString() << " to " << to.ToString();
        }
      }
    }
  }
  ASSERT_OK_AND_ASSIGN(const BoxingStep step,
                       OneBoxingStep({DType::kFloat32, {16}}, Dist(dp, "(P)"), Dist(factored, "(P,S(0))"), topology));
  EXPECT_EQ(step.collective, Collective::kReduceScatter);
}

TEST(BoxingPathTest, WhatCannotBeDoneIsRefusedAndInfinitelyDear) {
  const std::string x = "[x=2]{0,1}", xy = "[x=2,y=2]{0,1,2,3}";
  const TensorType type{DType::kFloat32, {4}};
  EXPECT_THAT(BoxingPath(type, Dist(xy, "(B,B)"), Dist(xy, "(P,P(max))"), OneHost(4, 1)),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("different reductions")));
  EXPECT_EQ(BoxingSeconds(type, Dist(xy, "(P,P(max))"), Dist(xy, "(B,B)"), OneHost(4, 1)),
            std::numeric_limits<double>::infinity());
  EXPECT_THAT(BoxingPath(type, Dist(x, "(S(3))"), Dist(x, "(B)"), OneHost(2, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("splits dimension 3")));
  ASSERT_OK_AND_ASSIGN(const auto nothing, BoxingPath(type, Dist(x, "(B)"), Dist(x, "(B)"), OneHost(2, 1)));
  EXPECT_THAT(nothing, IsEmpty());
}

TEST(BoxingPathTest, AMaximumBecomesASumByWayOfTheValue) {
  const std::string x = "[x=2]{0,1}", xy = "[x=2,y=2]{0,1,2,3}";
  const TensorType type{DType::kFloat32, {4}};
  ASSERT_OK_AND_ASSIGN(const auto path, BoxingPath(type, Dist(x, "(P(max))"), Dist(x, "(P)"), OneHost(2, 1)));
  EXPECT_THAT(PathTexts(path), ElementsAre(x + "(S(0))", x + "(P)"));
  ASSERT_OK_AND_ASSIGN(const int64_t bytes, Follow(type, Dist(x, "(P(max))"), Dist(x, "(P)"), OneHost(2, 1)));
  EXPECT_EQ(bytes, type.num_bytes()) << "of the reduce-scatter; a slice is an addend where it lies";
  ASSERT_OK(Follow(type, Dist(xy, "(P(max),S(0))"), Dist(xy, "(B,P)"), OneHost(4, 1)).status());
  ASSERT_OK(Follow({DType::kFloat32, {}}, Dist(x, "(P(max))"), Dist(x, "(P)"), OneHost(2, 1)).status());
}

TEST(BoxingPathTest, ALongerWayIsNeverCheaper) {
  const std::string x = "[x=3]{0,1,2}";
  const TensorType type{DType::kFloat32, {900, 30}};
  const auto seconds = [&](const std::string& a, const std::string& b) {
    return BoxingSeconds(type, Dist(x, a), Dist(x, b), OneHost(3, 1));
  };
  EXPECT_EQ(seconds("(B)", "(S(0))"), 0);
  EXPECT_LT(seconds("(P)", "(S(0))"), seconds("(P)", "(B)"));
  EXPECT_LT(seconds("(S(0))", "(S(1))"), seconds("(S(0))", "(B)"));
}

}  // namespace
}  // namespace oneflow
