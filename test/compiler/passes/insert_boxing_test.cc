#include "sbp/boxing.h"
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

// A graph after select-sbp, made by hand: `producer` gives f32[8,8] as `from`, each of `readers` wants its own type.
struct HandMade {
  HandMade(const DistType& from, const std::vector<DistType>& readers) : graph("hand-made") {
    Node source;
    source.op = "constant";
    source.name = "x";
    source.attrs = {{"dtype", std::string("f32")}, {"shape", std::vector<int64_t>{8, 8}}, {"value", 1.0}};
    source.placement = from.placement;
    ValueId value = Add(source, from);
    for (size_t i = 0; i < readers.size(); ++i) {
      Node boxing;
      boxing.op = "boxing";
      boxing.name = absl::StrCat("box/x/", i);
      boxing.inputs = {value};
      boxing.placement = readers[i].placement;
      const ValueId boxed = Add(boxing, readers[i]);
      Node reader;
      reader.op = "to";
      reader.name = absl::StrCat("to", i);
      reader.inputs = {boxed};
      reader.placement = readers[i].placement;
      Node relu = reader;
      relu.op = "relu";
      relu.name = absl::StrCat("reader", i);
      relu.inputs = {Add(reader, readers[i])};
      Add(relu, readers[i]);
    }
  }

  ValueId Add(const Node& node, const DistType& dist) {
    const NodeId id = graph.AddNode(node, {TensorType{DType::kFloat32, {8, 8}}});
    graph.value(graph.node(id).outputs[0]).dist = dist;
    return graph.node(id).outputs[0];
  }

  absl::Status Insert() {
    const VariableDists none;
    const CompileOptions options = Options({{"dp", 4}});
    PassContext context{options, Ops(), none, JobTopology(options)};
    return InsertBoxing(graph, context).status();
  }

  Graph graph;
};

const Placement kFour({{"dp", 4}}, {0, 1, 2, 3});
const DistType kSum{kFour, {Sbp::Partial()}};
const DistType kWhole{kFour, {Sbp::Broadcast()}};
const DistType kRows{kFour, {Sbp::Split(0)}};

TEST(InsertBoxingTest, WritesOneNodePerStepOfThePath) {
  HandMade made(kSum, {kWhole});
  ASSERT_OK(made.Insert());
  const Topology topology = OneHost(4, 1);
  ASSERT_OK_AND_ASSIGN(const std::vector<DistType> path, BoxingPath({DType::kFloat32, {8, 8}}, kSum, kWhole, topology));
  EXPECT_EQ(NamesOf(made.graph, "boxing").size(), path.size());
  const Node& last = ProducerOf(made.graph, NodeOf(made.graph, "reader0"), 0);
  EXPECT_EQ(last.name, "box/x/0");
  EXPECT_EQ(*made.graph.value(last.outputs[0]).dist, kWhole);
}

TEST(InsertBoxingTest, DissolvesAnnotations) {
  HandMade made(kSum, {kWhole});
  ASSERT_OK(made.Insert());
  EXPECT_THAT(NamesOf(made.graph, "to"), IsEmpty());
}

TEST(InsertBoxingTest, SharesStepsWhereTwoPathsBeginAlike) {
  const Topology topology = OneHost(4, 1);
  ASSERT_OK_AND_ASSIGN(const std::vector<DistType> path, BoxingPath({DType::kFloat32, {8, 8}}, kSum, kWhole, topology));
  ASSERT_EQ(path.size(), 2u);  // by way of a split
  HandMade made(kSum, {kWhole, path[0]});
  ASSERT_OK(made.Insert());
  EXPECT_EQ(NamesOf(made.graph, "boxing").size(), 2u);
}

TEST(InsertBoxingTest, InsertsNothingBetweenEqualTypes) {
  HandMade made(kRows, {kRows});
  ASSERT_OK(made.Insert());
  EXPECT_THAT(NamesOf(made.graph, "boxing"), IsEmpty());
  EXPECT_EQ(ProducerOf(made.graph, NodeOf(made.graph, "reader0"), 0).name, "x");
}

}  // namespace
}  // namespace oneflow::testing
