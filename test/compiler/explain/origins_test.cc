#include "compiler/explain/origins.h"

#include "test/compiler/explain/example.h"

namespace oneflow::testing {
namespace {

using Kind = Origin::Kind;

struct Found {
  Kind kind;
  std::string from;
};
bool operator==(const Found& a, const Found& b) { return a.kind == b.kind && a.from == b.from; }
void PrintTo(const Found& found, std::ostream* out) {
  *out << static_cast<int>(found.kind) << " '" << found.from << "'";
}

Found OriginOf(const GraphFacts& facts, const std::string& node, int axis) {
  const Origin& origin = facts.origins[NodeOf(facts.placed, node).outputs[0]][axis];
  return {origin.kind, origin.from < 0 ? "" : facts.placed.node(origin.from).name};
}

constexpr int kDp = 0, kTp = 1;

TEST(OriginsTest, AnAnnotationIsNamedWhereItStands) {
  const JobFacts job = ExampleFacts();
  EXPECT_EQ(OriginOf(job.graphs[0], "to", kDp), (Found{Kind::kAnnotated, "to"}));
  EXPECT_EQ(OriginOf(job.graphs[0], "up/weight", kTp), (Found{Kind::kAnnotated, "up/weight"}));
}

TEST(OriginsTest, WhatKeepsASplitNamesTheAnnotatedTensor) {
  const JobFacts job = ExampleFacts();
  for (const char* node : {"rows", "up/matmul", "up/relu", "down/matmul", "losses"}) {
    EXPECT_EQ(OriginOf(job.graphs[0], node, kDp), (Found{Kind::kInherited, "to"})) << node;
  }
}

TEST(OriginsTest, WhatNoAnnotationReachesIsChosenByCost) {
  const JobFacts job = ExampleFacts();
  for (const char* node : {"up/matmul", "up/relu", "down/matmul"}) {
    EXPECT_EQ(OriginOf(job.graphs[0], node, kTp), (Found{Kind::kCost, ""})) << node;
  }
  EXPECT_EQ(OriginOf(job.graphs[0], "up/weight", kDp), (Found{Kind::kCost, ""}));
}

TEST(OriginsTest, AScalarHasNoChoice) {
  const JobFacts job = ExampleFacts();
  const std::vector<std::string> rates = NamesOf(job.graphs[0].placed, "lr_schedule");
  ASSERT_EQ(rates.size(), 1);
  EXPECT_EQ(OriginOf(job.graphs[0], rates[0], kDp), (Found{Kind::kOnly, ""}));
}

TEST(OriginsTest, VariablesOfLaterGraphsLieAsTheFirstLaidThem) {
  Graph later = *GraphFromText(kExample, Ops());
  later.losses.clear();
  ASSERT_OK_AND_ASSIGN(const JobFacts job,
                       FactsOf({*GraphFromText(kExample, Ops()), later}, Options({{"dp", 2}, {"tp", 2}})));
  EXPECT_EQ(OriginOf(job.graphs[0], "up/weight", kDp).kind, Kind::kCost);
  EXPECT_EQ(OriginOf(job.graphs[1], "up/weight", kDp).kind, Kind::kFixed);
}

TEST(OriginsTest, WhatIsOverwrittenWithAnAnnotatedVariableFollowsIt) {
  GraphBuilder b(Ops(), "pair");
  const TensorType type{DType::kFloat32, {8, 4}};
  const Tensor w = b.Variable("w", type, "zeros", {{"tp", Sbp::Split(0)}}, /*trainable=*/false);
  const Tensor u = b.Variable("u", type, "zeros", {}, /*trainable=*/false);
  const Tensor g = b.Variable("g", type, "ones", {}, /*trainable=*/false);
  const Tensor one = b.Variable("one", {DType::kFloat32, {}}, "ones", {}, /*trainable=*/false);
  b.Op("sgd_update", {w, u, g, one, one}, {{"momentum", 0.9}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf({graph}, Options({{"tp", 2}})));
  EXPECT_EQ(OriginOf(job.graphs[0], "u", 0), (Found{Kind::kTied, "w"}));
}

TEST(OriginsTest, AWishThatYieldedIsNotTheReason) {
  const std::string unasked = "%5:f32[8,32] = ", asked = "%5:f32[8,32]{dp:S(1)@1} = ";
  std::string text = kExample;
  text.replace(text.find(unasked), unasked.size(), asked);
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf({*GraphFromText(text, Ops())}, Options({{"dp", 2}, {"tp", 2}})));
  const GraphFacts& facts = job.graphs[0];
  EXPECT_EQ(OriginOf(facts, "up/matmul", kDp), (Found{Kind::kInherited, "to"}));
  EXPECT_TRUE(facts.origins[NodeOf(facts.placed, "up/matmul").outputs[0]][kDp].yielded);
}

}  // namespace
}  // namespace oneflow::testing
