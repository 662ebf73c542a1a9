#include "compiler/plan/collectives.h"

#include <functional>
#include <random>

#include "compiler/plan/boxings.h"
#include "gmock/gmock.h"
#include "sbp/boxing_group.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using Data = std::vector<int64_t>;

// Runs copies from `sources` (as the pieces number them) into `target`.
void Copy(const CopyProgram& program, const std::vector<const Data*>& sources, Data& target) {
  if (program.zero_fill) std::fill(target.begin(), target.end(), 0);
  for (const CopyPiece& piece : program.pieces) {
    std::function<void(size_t, int64_t, int64_t)> visit = [&](size_t d, int64_t s, int64_t t) {
      if (d == piece.extent.size()) {
        const int64_t value = sources[piece.source]->at(s);
        target.at(t) = piece.accumulate ? target.at(t) + value : value;
        return;
      }
      for (int64_t i = 0; i < piece.extent[d]; ++i) {
        visit(d + 1, s + i * piece.source_stride[d], t + i * piece.target_stride[d]);
      }
    };
    visit(0, piece.source_offset, piece.target_offset);
  }
}

struct World {
  std::map<int, BoxingShare> shares;
  std::map<int, Data> shard, sent, got, result;  // by rank
};

// What a member's call gives it.
void Call(World& world, int rank) {
  const BoxingShare& share = world.shares.at(rank);
  Data& out = world.got[rank];
  const auto own = std::find(share.members.begin(), share.members.end(), rank) - share.members.begin();
  const auto input = [&](size_t member) -> const Data& { return world.sent.at(share.members[member]); };
  for (int member : share.members) ASSERT_EQ(world.shares.at(member).call, share.call);
  switch (share.call) {
    case GroupCall::kNone:
      return;
    case GroupCall::kAllGather:
      out.clear();
      for (size_t m = 0; m < share.members.size(); ++m) out.insert(out.end(), input(m).begin(), input(m).end());
      return;
    case GroupCall::kReduceScatter:
      out.assign(input(0).size() / share.members.size(), 0);
      for (size_t m = 0; m < share.members.size(); ++m) {
        for (size_t i = 0; i < out.size(); ++i) out[i] += input(m).at(own * out.size() + i);
      }
      return;
    case GroupCall::kBroadcast:
      out = input(0);
      return;
    case GroupCall::kExchange:
      for (const PlannedTransfer& mine : share.transfers) {
        const std::vector<PlannedTransfer>& of_peer = world.shares.at(share.members[mine.peer]).transfers;
        const auto theirs =
            std::find_if(of_peer.begin(), of_peer.end(), [&](const PlannedTransfer& x) { return x.peer == own; });
        ASSERT_NE(theirs, of_peer.end());
        ASSERT_EQ(theirs->send_count, mine.receive_count);
        for (int64_t i = 0; i < mine.receive_count; ++i) {
          out.at(mine.receive_offset + i) = input(mine.peer).at(theirs->send_offset + i);
        }
      }
  }
}

// Every rank's share of the step, with its copies and calls.
void Play(const Shape& shape, const BoxingStep& step, World& world) {
  for (auto& [rank, share] : world.shares) {
    world.sent[rank] = world.shard[rank];
    if (share.pack.has_value()) {
      world.sent[rank].assign(share.packed, -1);
      Copy(*share.pack, {&world.shard[rank]}, world.sent[rank]);
    }
    const int d = step.to.placement.IndexOf(rank);
    const int64_t count = d < 0 ? 0 : ShardShape(shape, step.to, d).count();
    world.got[rank].assign(share.unpack.has_value() ? share.received : count, -1);
  }
  for (auto& [rank, share] : world.shares) Call(world, rank);
  for (auto& [rank, share] : world.shares) {
    const int d = step.to.placement.IndexOf(rank);
    if (d < 0) continue;
    world.result[rank] = world.got[rank];
    if (!share.unpack.has_value()) continue;
    world.result[rank].assign(ShardShape(shape, step.to, d).count(), -1);
    Copy(*share.unpack, {&world.shard[rank], &world.got[rank]}, world.result[rank]);
  }
}

// Elements that ranks get from others.
int64_t Received(const World& world) {
  int64_t total = 0;
  for (const auto& [rank, share] : world.shares) {
    const int64_t members = static_cast<int64_t>(share.members.size());
    if (share.call == GroupCall::kAllGather) total += (members - 1) * static_cast<int64_t>(world.sent.at(rank).size());
    if (share.call == GroupCall::kReduceScatter)
      total += (members - 1) * static_cast<int64_t>(world.got.at(rank).size());
    if (share.call == GroupCall::kBroadcast && !share.sends) total += static_cast<int64_t>(world.got.at(rank).size());
    for (const PlannedTransfer& x : share.transfers) total += x.receive_count;
  }
  return total;
}

// What the rank that needs most packs and receives.
SendBuffers MostOf(const std::map<int, BoxingShare>& shares) {
  SendBuffers most;
  for (const auto& [rank, share] : shares) {
    most.packed = std::max(most.packed, share.packed);
    most.received = std::max(most.received, share.received);
  }
  return most;
}

// By name, what the shares of a step are; expects them to compute what its copies compute. `rows` is the dimension of
// ragged rows, all of them filled, or -1.
std::vector<std::string> KindsOf(const Shape& shape, const std::string& from, const std::string& to, bool exact,
                                 int rows = -1) {
  const TensorType type{DType::kFloat32, shape};
  const absl::StatusOr<BoxingStep> step = OneBoxingStep(type, Dist(from), Dist(to), OneProcess(8));
  EXPECT_OK(step.status());
  if (!step.ok()) return {};
  World world;
  std::vector<const Data*> shards;
  int64_t next = 1;
  for (int i = 0; i < step->from.placement.size(); ++i) {
    Data& data = world.shard[step->from.placement.ranks()[i]];
    data.resize(ShardShape(shape, step->from, i).count());
    for (int64_t& x : data) x = next++;
  }
  for (int rank : step->from.placement.ranks()) shards.push_back(&world.shard[rank]);
  const Topology topology = OneProcess(8);
  const std::unique_ptr<BoxingReads> reads = *BoxingReads::Create(type, step->from, step->to, topology);
  for (int rank = 0; rank < 8; ++rank) {
    if (std::optional<BoxingShare> share = ShareOf(*reads, rank, rows)) world.shares[rank] = *std::move(share);
  }
  Play(shape, *step, world);
  for (int d = 0; d < step->to.placement.size(); ++d) {
    Data expected(ShardShape(shape, step->to, d).count(), -1);
    Copy(CopiesFor(*reads, d), shards, expected);
    EXPECT_EQ(world.result[step->to.placement.ranks()[d]], expected) << "destination " << d;
  }
  EXPECT_EQ(Received(world) * 4, BytesMoved(type, *step));
  // As planned: from groups of all shapes.
  SendBuffers bound;
  for (const BoxingGroup& group : DifferentGroups(shape, step->from, step->to)) {
    const SendBuffers of_group =
        MostSent(**BoxingReads::Create({type.dtype, group.shape}, group.from, group.to, topology), rows);
    bound.packed = std::max(bound.packed, of_group.packed);
    bound.received = std::max(bound.received, of_group.received);
  }
  const SendBuffers most = MostOf(world.shares);
  EXPECT_GE(bound.packed, most.packed);
  EXPECT_GE(bound.received, most.received);
  if (exact) {
    EXPECT_EQ(bound.packed, most.packed);
    EXPECT_EQ(bound.received, most.received);
  }
  std::vector<std::string> kinds;
  for (const auto& [rank, share] : world.shares) {
    kinds.push_back(absl::StrCat(Name(share.call), share.pack.has_value() ? " pack" : "",
                                 share.unpack.has_value() ? " unpack" : ""));
  }
  return kinds;
}

TEST(CollectivesTest, AStepIsTheCallThatItsSizesAllow) {
  const struct {
    Shape shape;
    const char* from;
    const char* to;
    const char* first;  // of the lowest rank with a share
  } cases[] = {
      {{4, 6}, "[dp=2]{0,1}(P)", "[dp=2]{0,1}(S(0))", "reduce-scatter"},
      {{4, 6}, "[dp=2]{0,1}(P)", "[dp=2]{0,1}(S(1))", "reduce-scatter pack"},
      {{4, 6}, "[dp=2]{0,1}(S(0))", "[dp=2]{0,1}(B)", "all-gather"},
      {{4, 6}, "[dp=2]{0,1}(S(1))", "[dp=2]{0,1}(B)", "all-gather unpack"},
      {{5, 6}, "[dp=2]{0,1}(S(0))", "[dp=2]{0,1}(B)", "exchange unpack"},
      {{5, 6}, "[dp=2]{0,1}(P)", "[dp=2]{0,1}(S(0))", "exchange unpack"},
      {{4, 6}, "[dp=2]{0,1}(S(0))", "[dp=2]{0,1}(S(1))", "exchange pack unpack"},
      {{4, 6}, "[dp=2]{0,1}(B)", "[dp=2]{0,1}(S(1))", "none unpack"},
      {{4, 6}, "[dp=2]{0,1}(S(0))", "[dp=2]{2,3}(S(0))", "exchange"},
      {{4, 6}, "[]{0}()", "[dp=3]{1,2,3}(B)", "broadcast"},
      {{4, 6}, "[]{0}()", "[]{1}()", "exchange"},
      {{4, 6}, "[]{0}()", "[dp=2]{0,1}(S(0))", "exchange unpack"},
      {{4, 6}, "[dp=2,tp=2]{0,1,2,3}(P,S(1))", "[dp=2,tp=2]{0,1,2,3}(S(0),S(1))", "reduce-scatter"},
      {{4, 6}, "[dp=2,tp=2]{0,1,2,3}(S(0),S(1))", "[dp=2,tp=2]{0,1,2,3}(S(0),B)", "all-gather unpack"},
      {{8, 6}, "[dp=2,tp=2]{0,1,2,3}(P,S(0))", "[tp=2,dp=2]{0,2,1,3}(S(0),S(0))", "reduce-scatter"},
      {{8, 6}, "[tp=2,dp=2]{0,2,1,3}(S(0),S(0))", "[dp=2,tp=2]{0,1,2,3}(B,S(0))", "all-gather"},
      {{2, 6}, "[dp=4]{0,1,2,3}(S(0))", "[dp=4]{0,1,2,3}(B)", "exchange unpack"},
      {{4, 6}, "[dp=2,tp=2]{0,1,2,3}(S(1),B)", "[dp=2,tp=2]{0,1,2,3}(B,S(1))", "exchange unpack"},
      // Four rows and three: one group gathers evenly, and in place, and the other cannot.
      {{7, 6}, "[dp=2,tp=2]{0,1,2,3}(S(0),S(0))", "[dp=2,tp=2]{0,1,2,3}(S(0),B)", "all-gather"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(absl::StrCat(c.from, " -> ", c.to));
    const std::vector<std::string> kinds = KindsOf(c.shape, c.from, c.to, /*exact=*/true);
    ASSERT_FALSE(kinds.empty());
    EXPECT_EQ(kinds[0], c.first);
  }
}

// Other calls take as much of all, and rows of several groups are no run.
TEST(CollectivesTest, RaggedRowsAreExchanged) {
  const struct {
    Shape shape;
    const char* from;
    const char* to;
    const char* first;
  } cases[] = {
      {{4, 6}, "[dp=2]{0,1}(P)", "[dp=2]{0,1}(S(0))", "exchange pack unpack"},
      {{4, 6}, "[dp=2]{0,1}(S(0))", "[dp=2]{0,1}(B)", "exchange pack unpack"},
      {{2, 6}, "[dp=2]{0,1}(S(0))", "[dp=2]{0,1}(B)", "exchange unpack"},
      {{4, 6}, "[dp=2]{0,1}(B)", "[dp=2]{0,1}(S(1))", "none unpack"},
      {{4, 6}, "[dp=2]{0,1}(S(0))", "[dp=2]{2,3}(S(0))", "exchange pack"},
      {{2, 6}, "[dp=2]{0,1}(S(0))", "[dp=2]{2,3}(S(0))", "exchange"},
      {{4, 6}, "[]{0}()", "[dp=3]{1,2,3}(B)", "exchange pack"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(absl::StrCat(c.from, " -> ", c.to));
    const std::vector<std::string> kinds = KindsOf(c.shape, c.from, c.to, /*exact=*/true, /*rows=*/1);
    ASSERT_FALSE(kinds.empty());
    EXPECT_EQ(kinds[0], c.first);
  }
}

// The boxing law again, by sending: whatever the pair of types and the sizes.
TEST(CollectivesTest, SharesComputeWhatTheCopiesOfTheStepCompute) {
  const std::vector<std::string> placements = {"[]{1}",
                                               "[dp=2]{0,1}",
                                               "[dp=3]{2,0,4}",
                                               "[dp=2]{2,3}",
                                               "[tp=2]{1,2}",
                                               "[tp=4]{0,1,2,3}",
                                               "[dp=2,tp=2]{0,1,2,3}",
                                               "[tp=2,dp=2]{0,2,1,3}",
                                               "[dp=3,tp=2]{0,1,2,3,4,5}"};
  const uint32_t seed = 20260101;
  std::mt19937 random(seed);
  int done = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto type = [&] {
      const std::string placement = placements[random() % placements.size()];
      const int axes = placement[1] == ']' ? 0 : placement.find(',') < placement.find(']') ? 2 : 1;
      std::string sbp;
      for (int a = 0; a < axes; ++a) {
        constexpr const char* kSbps[] = {"S(0)", "S(1)", "B", "P"};
        sbp += std::string(a > 0 ? "," : "") + kSbps[random() % 4];
      }
      return placement + "(" + sbp + ")";
    };
    const Shape shape{static_cast<int64_t>(1 + random() % 7), static_cast<int64_t>(1 + random() % 6)};
    std::string from = type(), to = type();
    while (random() % 2 == 0 && Dist(from).placement != Dist(to).placement) to = type();  // what models have
    SCOPED_TRACE(absl::StrCat("seed ", seed, " case ", i, ": ", shape.ToString(), " ", from, " -> ", to));
    if (!OneBoxingStep({DType::kFloat32, shape}, Dist(from), Dist(to), OneProcess(8)).ok()) continue;
    KindsOf(shape, from, to, /*exact=*/false, /*rows=*/i % 3 - 1);
    if (HasFailure()) return;
    ++done;
  }
  EXPECT_GT(done, 1000);
}

}  // namespace
}  // namespace oneflow
