#include "compiler/ring.h"

#include <algorithm>
#include <map>

#include "gmock/gmock.h"
#include "oneflow_core/builder.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using ::testing::ElementsAre;

const OpRegistry& RingOps() {
  static const OpRegistry* const ops = new OpRegistry(StandardOps());
  return *ops;
}

// Attention of so many tokens on a ring along axis "cp", the second of three axes.
struct RingCase {
  RingCase(int size, int64_t tokens, bool causal, int64_t window = 0) {
    GraphBuilder b(RingOps(), "train");
    const Tensor q = b.Variable("q", {DType::kFloat32, {2, tokens, 8}}, "zeros");
    AttrMap attrs = {{"heads", int64_t{2}}, {"causal", causal}};
    if (window > 0) attrs.Set("window", window);
    b.Op("attention", {q, q, q}, attrs, std::source_location::current(), "core");
    graph = *b.Finish();
    id = graph.FindNode("core");
    std::vector<int> ranks;
    for (int i = 0; i < 4 * size; ++i) ranks.push_back(i);
    graph.node(id).placement = Placement({{"dp", 2}, {"cp", size}, {"tp", 2}}, ranks);
  }
  std::vector<RingPart> Parts() const { return PartsOfRing(NodeView(graph, id, RingOps()), {1}); }
  Graph graph;
  NodeId id = -1;
};

// What is computed for a chunk of queries and one of keys, in halves of the heads, by the rank that does it. `q` and
// `k` are chunks.
struct Work {
  int rank, q, k, halves;
};

std::vector<Work> WorkOf(int size, const std::vector<RingPart>& parts) {
  std::vector<Work> work;
  for (int rank = 0; rank < size; ++rank) {
    work.push_back({rank, rank, rank, 2});
    for (const RingPart& part : parts) {
      const int other = (rank - part.step + size) % size;
      const bool keys_come = part.moves == RingSide::kKeys;
      work.push_back({rank, keys_come ? rank : other, keys_come ? other : rank, part.share == 0 ? 2 : 1});
    }
  }
  return work;
}

// Every pair of chunks in which a query may see a key is computed once, and each rank has as much to do.
TEST(RingTest, EachPairOfChunksIsComputedOnceAndTheWorkIsEven) {
  for (int size = 2; size <= 9; ++size) {
    for (const bool causal : {false, true}) {
      const RingCase ring(size, 16 * size, causal);
      std::map<std::pair<int, int>, int> halves;
      std::vector<double> pairs(size, 0);  // of tokens, by rank
      constexpr double kChunk = 4096;
      for (const Work& it : WorkOf(size, ring.Parts())) {
        if (causal && it.k > it.q) continue;  // no key is seen
        halves[{it.q, it.k}] += it.halves;
        pairs[it.rank] += it.halves / 2.0 * (it.q == it.k && causal ? kChunk * (kChunk + 1) / 2 : kChunk * kChunk);
      }
      for (int q = 0; q < size; ++q) {
        for (int k = 0; k < size; ++k) {
          const bool is_seen = !causal || k <= q;
          EXPECT_EQ((halves[{q, k}]), is_seen ? 2 : 0) << q << " " << k << " of " << size;
        }
      }
      EXPECT_NEAR(*std::max_element(pairs.begin(), pairs.end()), *std::min_element(pairs.begin(), pairs.end()),
                  1e-9 * pairs[0])
          << size;
    }
  }
}

// A window of w tokens reaches over (w - 2) / chunk + 1 chunks at most.
TEST(RingTest, AWindowReachesOverFewChunks) {
  const auto steps = [](int64_t window) {
    std::vector<int> distances;
    for (const RingPart& part : RingCase(8, 80, true, window).Parts()) {
      const int distance = part.moves == RingSide::kKeys ? part.step : 8 - part.step;
      if (distances.empty() || distances.back() != distance) distances.push_back(distance);
    }
    return distances;
  };
  EXPECT_THAT(steps(1), ElementsAre());
  EXPECT_THAT(steps(2), ElementsAre(1));
  EXPECT_THAT(steps(11), ElementsAre(1));
  EXPECT_THAT(steps(12), ElementsAre(1, 2));
  EXPECT_THAT(steps(42), ElementsAre(1, 2, 3, 5, 4)) << "that of 5 is computed on the other side";
  EXPECT_THAT(steps(80), ElementsAre(1, 7, 2, 6, 3, 5, 4));
}

TEST(RingTest, OnATurnedPlacementRanksHaveThePartsOfThoseBefore) {
  const Placement grid({{"dp", 2}, {"cp", 3}}, {10, 11, 12, 20, 21, 22});
  EXPECT_THAT(Turned(grid, {1}, 1).ranks(), ElementsAre(11, 12, 10, 21, 22, 20));
  EXPECT_THAT(Turned(grid, {1}, 2).ranks(), ElementsAre(12, 10, 11, 22, 20, 21));
  EXPECT_THAT(Turned(grid, {0}, 1).ranks(), ElementsAre(20, 21, 22, 10, 11, 12));
  EXPECT_THAT(Turned(grid, {0, 1}, 1).ranks(), ElementsAre(11, 12, 20, 21, 22, 10)) << "one ring of both axes";
  EXPECT_EQ(Turned(grid, {1}, 3), grid);
}

TEST(RingTest, RingsAreWhereTokensOfBothSidesLieSplit) {
  const RingCase ring(2, 32, true);
  const Placement& placement = *ring.graph.node(ring.id).placement;
  const OpDef& op = *RingOps().Find("attention");
  const auto axes = [&](const char* q, const char* k) {
    const NdSbp of_q = *ParseNdSbp(q), of_k = *ParseNdSbp(k);
    return RingAxes(op, {{of_q, of_k, of_k}, {of_q, of_q}}, placement);
  };
  EXPECT_THAT(axes("(S(0),S(1),S(2))", "(S(0),S(1),S(2))"), ElementsAre(1));
  EXPECT_THAT(axes("(S(1),S(1),S(2))", "(S(1),S(1),S(2))"), ElementsAre(0, 1));
  EXPECT_THAT(axes("(S(0),S(1),B)", "(S(0),B,B)"), ElementsAre());
  const NdSbp whole = *ParseNdSbp("(B,B,B)");
  EXPECT_THAT(RingAxes(*RingOps().Find("matmul"), {{whole, whole}, {whole}}, placement), ElementsAre());
}

}  // namespace
}  // namespace oneflow
