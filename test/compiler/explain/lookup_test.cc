#include "compiler/explain/lookup.h"

#include "test/compiler/explain/example.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

std::string NameAt(const JobFacts& job, const TensorPlace& place) {
  return absl::StrCat(job.graphs[place.graph].boxed.node(place.node).name, ":", place.output);
}

TEST(LookupTest, NodesAndTheirOutputsAreFound) {
  const JobFacts job = ExampleFacts();
  for (const auto& [name, found] : std::vector<std::pair<std::string, std::string>>{
           {"losses", "losses:0"}, {"losses:0", "losses:0"}, {"losses:1", "losses:1"}, {"fetch", "fetch:-1"}}) {
    ASSERT_OK_AND_ASSIGN(const std::vector<TensorPlace> places, FindTensor(job, name));
    ASSERT_THAT(places, SizeIs(1));
    EXPECT_EQ(NameAt(job, places[0]), found);
  }
}

TEST(LookupTest, AnAnnotationAndABoxingLeadToTheirTensor) {
  const JobFacts job = ExampleFacts();
  ASSERT_OK_AND_ASSIGN(std::vector<TensorPlace> places, FindTensor(job, "to"));
  EXPECT_EQ(NameAt(job, places[0]), "data:0");
  EXPECT_THAT(places[0].annotations, SizeIs(1));
  ASSERT_OK_AND_ASSIGN(places, FindTensor(job, "box/down/matmul/(S(0),B)"));
  EXPECT_EQ(NameAt(job, places[0]), "down/matmul:0");
}

TEST(LookupTest, AnUnknownNameGetsTheNearest) {
  const JobFacts job = ExampleFacts();
  EXPECT_THAT(FindTensor(job, "down/matmull").status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("no tensor 'down/matmull'"), HasSubstr("nearest names are 'down/matmul'"))));
}

TEST(LookupTest, AnOutputThatDoesNotExistIsAnError) {
  const JobFacts job = ExampleFacts();
  EXPECT_THAT(FindTensor(job, "losses:2").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("'losses'"), HasSubstr("no output 2"))));
}

TEST(LookupTest, NamesWithACommonBeginningAreListed) {
  const JobFacts job = ExampleFacts();
  std::vector<std::string> names;
  for (const TensorPlace& place : TensorsBeginningWith(job, "down/matmul")) names.push_back(NameAt(job, place));
  EXPECT_THAT(names, ElementsAre("down/matmul:0", "down/matmul/matmul:0", "down/matmul/matmul_wgrad:0"));
}

TEST(LookupTest, AnOpThatWasFusedLeadsToTheOneThatComputesIt) {
  GraphBuilder b(Ops(), "fused");
  const Tensor x = ReadSamples(b, 8, {}).rows;
  const Tensor product = MatMul(x, Weight(b, "w", {16, 4}));
  Fetch(Relu(b.Op("bias_add", {product, Weight(b, "bias", {4})}, {{"axis", int64_t{1}}})[0]), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf({graph}, Options({{"dp", 2}})));
  ASSERT_OK_AND_ASSIGN(const std::vector<TensorPlace> places, FindTensor(job, "matmul"));
  ASSERT_THAT(places, SizeIs(1));
  const GraphFacts& facts = job.graphs[0];
  EXPECT_NE(facts.boxed.node(places[0].node).op, "matmul");
  ASSERT_GE(places[0].part, 0);
  EXPECT_EQ(facts.placed.node(places[0].part).name, "matmul");
  EXPECT_THAT(facts.parts.at(places[0].node), ::testing::Contains(places[0].part));
  const std::vector<TensorPlace> listed = TensorsBeginningWith(job, "matmul");
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_EQ(listed[0].part, places[0].part);
}

TEST(LookupTest, NamesThatContainTheTextAreNearest) {
  EXPECT_THAT(NearestNames("mat", {"cat", "h0/matmul", "zebra", "map"}, 3), ElementsAre("h0/matmul", "cat", "map"));
  EXPECT_THAT(NearestNames("", {"b", "a"}, 1), ElementsAre("a"));
}

}  // namespace
}  // namespace oneflow::testing
