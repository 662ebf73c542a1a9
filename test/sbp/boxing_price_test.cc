// The price of a step by arithmetic is that of the step spelled out.
#include "sbp/boxing_price.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_join.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Random meshes, placements on them, types and hosts. Placements are whole meshes, stages of them, reordered, moved or
// sparse.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  int Below(int n) { return static_cast<int>(engine_() % static_cast<uint32_t>(n)); }

  Placement PlacementAmong(int num_ranks, int most) {
    while (true) {
      std::vector<Axis> axes;
      int size = 1;
      for (int a = Below(4); a > 0; --a) {
        axes.push_back({std::string(1, static_cast<char>('u' + Below(2) + 2 * a)), 1 + Below(4)});
        size *= axes.back().size;
      }
      const int stride = 1 + Below(3);
      if (size > most || size * stride > num_ranks) continue;
      const int base = Below(num_ranks - size * stride + 1);
      std::vector<int> ranks;
      for (int i = 0; i < size; ++i) ranks.push_back(base + i * stride);
      if (Below(6) == 0) std::shuffle(ranks.begin(), ranks.end(), engine_);
      return Placement(std::move(axes), std::move(ranks));
    }
  }

  DistType Dist(const Placement& placement, const Shape& shape) {
    DistType dist{placement, {}};
    for (int a = 0; a < placement.num_axes(); ++a) {
      const int choice = Below(shape.rank() + 2);
      dist.sbp.push_back(choice == 0 ? Sbp::Broadcast() : choice == 1 ? Sbp::Partial() : Sbp::Split(choice - 2));
    }
    return dist;
  }

 private:
  std::mt19937 engine_;
};

struct Sample {
  TensorType type;
  DistType from, to;
  BoxingStep step;
};

// A pair of types that one step changes, on placements of at most so many ranks.
Sample AStep(Random& random, const Topology& topology, int most, bool even) {
  while (true) {
    Shape shape;
    std::vector<int64_t> dims;
    for (int d = random.Below(4); d > 0; --d) dims.push_back(even ? 1 << (8 + random.Below(2)) : random.Below(40));
    const TensorType type{DType::kFloat32, Shape(dims)};
    const Placement placement = random.PlacementAmong(topology.num_ranks(), most);
    const bool other = random.Below(2) == 0;
    const DistType from = random.Dist(placement, type.shape);
    const DistType to = random.Dist(other ? random.PlacementAmong(topology.num_ranks(), most) : placement, type.shape);
    absl::StatusOr<BoxingStep> step = OneBoxingStep(type, from, to, topology);
    if (step.ok()) return {type, from, to, *std::move(step)};
  }
}

TEST(BoxingPriceTest, OnOneHostThePriceOfFewRanksIsThatOfTheStep) {
  const uint32_t seed = 20261121;
  Random random(seed);
  for (int i = 0; i < 3000; ++i) {
    const Topology topology = OneHost(24, 1 + random.Below(5));
    const Sample s = AStep(random, topology, 16, false);
    const StepPrice price = PriceOf(s.type, s.from, s.to, topology);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", case ", i, ": ", s.type.ToString(), " from ", s.from.ToString(), " to ",
                              s.to.ToString()));
    ASSERT_EQ(price.bytes, BytesMoved(s.type, s.step));
    ASSERT_NEAR(price.seconds, Seconds(s.type, s.step, topology), 1e-12);
  }
}

std::vector<HostGroup> RandomHosts(Random& random, int num_ranks) {
  std::vector<HostGroup> hosts;
  for (int devices = 0; devices < num_ranks;) {
    HostGroup group;
    group.count = 1 + random.Below(3);
    group.devices = 2 * (1 + random.Below(4));
    devices += static_cast<int>(group.count * group.devices);
    hosts.push_back(group);
  }
  return hosts;
}

// What leaves a host is spread over the hosts that give; a host that gives more than others is the only difference.
TEST(BoxingPriceTest, BetweenHostsItIsNeverMoreAndBytesAreThoseOfTheStep) {
  const uint32_t seed = 20261122;
  Random random(seed);
  int same = 0;
  const int kCases = 3000;
  for (int i = 0; i < kCases; ++i) {
    ASSERT_OK_AND_ASSIGN(const Topology topology, Topology::Create(24, 1 + random.Below(2), RandomHosts(random, 24)));
    const Sample s = AStep(random, topology, 16, false);
    const StepPrice price = PriceOf(s.type, s.from, s.to, topology);
    const double spelled_out = Seconds(s.type, s.step, topology);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", case ", i, ": ", s.type.ToString(), " from ", s.from.ToString(), " to ",
                              s.to.ToString()));
    ASSERT_EQ(price.bytes, BytesMoved(s.type, s.step));
    ASSERT_LE(price.seconds, spelled_out * (1 + 1e-9) + 1e-12);
    ASSERT_GE(price.seconds, spelled_out / 2);
    same += price.seconds >= spelled_out * (1 - 1e-9);
  }
  EXPECT_GE(same, kCases * 98 / 100);
}

// Parts of a few rows, and hosts that cut placements oddly, are what the ends do not show.
TEST(BoxingPriceTest, OfManyRanksTheOnesAtTheEndsSayTheLargestPrice) {
  const uint32_t seed = 20261123;
  Random random(seed);
  int same = 0;
  const int kCases = 300;
  for (int i = 0; i < kCases; ++i) {
    ASSERT_OK_AND_ASSIGN(const Topology topology, Topology::Create(128, 2, {{.count = 16, .devices = 8}}));
    const Sample s = AStep(random, topology, 64, i % 2 == 0);
    const StepPrice price = PriceOf(s.type, s.from, s.to, topology);
    const double spelled_out = Seconds(s.type, s.step, topology);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", case ", i, ": ", s.type.ToString(), " from ", s.from.ToString(), " to ",
                              s.to.ToString()));
    ASSERT_GE(static_cast<double>(price.bytes), static_cast<double>(BytesMoved(s.type, s.step)) / 2);
    ASSERT_LE(price.seconds, spelled_out * 2 + 1e-12);
    ASSERT_GE(price.seconds, spelled_out / 3);
    same += std::abs(price.seconds - spelled_out) <= 0.05 * spelled_out;
  }
  std::printf("%d of %d within 5%%\n", same, kCases);
  EXPECT_GE(same, kCases * 9 / 10);
}

// Of the steps that models are made of every destination is like every other, however many there are.
TEST(BoxingPriceTest, WhereAllRanksDoTheSameThePriceIsExactAtAnySize) {
  ASSERT_OK_AND_ASSIGN(const Topology topology, Topology::Create(256, 2, {{.count = 32, .devices = 8}}));
  const TensorType type{DType::kFloat32, {512, 256}};
  const char* const kPairs[][2] = {{"(S(0),B)", "(B,B)"},    {"(P,B)", "(S(0),B)"},       {"(P,S(1))", "(S(0),S(1))"},
                                   {"(B,P)", "(B,S(0))"},    {"(S(0),S(1))", "(S(0),B)"}, {"(S(0),S(0))", "(B,B)"},
                                   {"(B,S(0))", "(B,S(1))"}, {"(P,P)", "(S(0),S(0))"},    {"(S(0),B)", "(S(0),P)"}};
  for (const std::string grid : {"[dp=16,tp=8]", "[dp=32,tp=4]", "[dp=8,tp=16]"}) {
    for (const int base : {0, 128}) {
      std::vector<int> ranks(128);
      for (int i = 0; i < 128; ++i) ranks[i] = base + i;
      const Placement placement = *Placement::Parse(absl::StrCat(grid, "{", absl::StrJoin(ranks, ","), "}"));
      for (const auto& [a, b] : kPairs) {
        const DistType from{placement, *ParseNdSbp(a)}, to{placement, *ParseNdSbp(b)};
        ASSERT_OK_AND_ASSIGN(const BoxingStep step, OneBoxingStep(type, from, to, topology));
        const StepPrice price = PriceOf(type, from, to, topology);
        EXPECT_EQ(price.bytes, BytesMoved(type, step)) << grid << " " << a << " to " << b;
        EXPECT_NEAR(price.seconds, Seconds(type, step, topology), 1e-12) << grid << " " << a << " to " << b;
      }
    }
  }
}

TEST(BoxingPriceTest, StagesThatAreAlikeHaveOnePrice) {
  ASSERT_OK_AND_ASSIGN(const Topology topology, Topology::Create(256, 4, {{.count = 32, .devices = 8}}));
  const TensorType type{DType::kFloat32, {512, 300}};
  const auto stage = [&](int s) {
    PlacementHint hint{{"pp", s}};
    return *(*Mesh::Create({{"pp", 4}, {"dp", 16}, {"tp", 4}})).Place(hint);
  };
  for (const auto& [a, b] : {std::pair("(S(0),P)", "(S(0),B)"), {"(P,B)", "(B,B)"}, {"(S(1),B)", "(B,S(0))"}}) {
    const NdSbp from = *ParseNdSbp(a), to = *ParseNdSbp(b);
    for (int s = 1; s < 4; ++s) {
      EXPECT_EQ(BoxingSeconds(type, {stage(s), from}, {stage(s), to}, topology),
                BoxingSeconds(type, {stage(0), from}, {stage(0), to}, topology));
    }
    const double first = BoxingSeconds(type, {stage(0), *ParseNdSbp("(S(0),B)")}, {stage(1), to}, topology);
    EXPECT_EQ(BoxingSeconds(type, {stage(2), *ParseNdSbp("(S(0),B)")}, {stage(3), to}, topology), first);
  }
}

}  // namespace
}  // namespace oneflow
