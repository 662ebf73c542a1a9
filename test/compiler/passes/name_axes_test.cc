// name-axes: an annotation for a role is for all axes that have it, whatever they are called.
#include "oneflow_core/graph_text.h"
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

CompileOptions On(std::vector<Axis> axes) {
  CompileOptions options;
  options.mesh = *Mesh::Create(std::move(axes));
  return options;
}

// The hint of variable w, asked to lie as `hint`, on that mesh.
std::string HintOn(const std::string& hint, std::vector<Axis> axes) {
  GraphBuilder b(Ops(), "train");
  const Tensor w = b.Variable("w", {DType::kFloat32, {8, 8}}, "zeros", *ParseSbpHint(hint));
  Fetch(ReduceMean(w), "mean");
  const CompileOptions options = On(std::move(axes));
  const absl::StatusOr<Graph> graph = RunUpTo("name-axes", *b.Finish(), options);
  if (!graph.ok()) return std::string(graph.status().message());
  return ToString(graph->value(NodeOf(*graph, "w").outputs[0]).hint);
}

TEST(NameAxesTest, ANameOfARoleIsForTheAxesThatHaveIt) {
  const Axis x = {"x", 2, AxisRole::kModel}, y = {"y", 2, AxisRole::kModel}, z = {"z", 2, AxisRole::kBatch};
  EXPECT_EQ(HintOn("tp:S(1)", {{"dp", 2}, {"tp", 2}}), "tp:S(1)");
  EXPECT_EQ(HintOn("dp:B,tp:S(1)@2", {z, x}), "z:B,x:S(1)@2");
  EXPECT_EQ(HintOn("tp:S(1)", {x, y}), "x:S(1),y:S(1)");
  EXPECT_EQ(HintOn("tp:S(1)", {z}), "tp:S(1)") << "no axis has the role: it stays, without effect";
  EXPECT_EQ(HintOn("x:S(0),tp:S(1)", {x, y}), "x:S(0),y:S(1)") << "what names the axis itself counts more";
  EXPECT_EQ(HintOn("tp:S(1),y:B", {x, y}), "x:S(1),y:B");
  EXPECT_EQ(HintOn("dp:S(0)", {{"dp", 2, AxisRole::kModel}, z}), "z:S(0)") << "an axis that was given another role";
}

// Megatron's layers on axes of other names: the plan is the same but for the names.
TEST(NameAxesTest, AModelLiesAlikeOnAxesOfOtherNames) {
  const auto model = [] {
    GraphBuilder b(Ops(), "train");
    const Samples samples = ReadSamples(b, 16);
    const Tensor up = b.Variable("up", {DType::kFloat32, {16, 32}}, "normal(0.1)", {{"tp", Sbp::Split(1)}});
    const Tensor down = b.Variable("down", {DType::kFloat32, {32, 8}}, "normal(0.1)", {{"tp", Sbp::Split(0)}});
    const Tensor x = samples.rows.To({{"dp", Sbp::Split(0)}});
    const Tensor loss = ReduceMean(SoftmaxCrossEntropy(MatMul(Relu(MatMul(x, up)), down), samples.labels));
    b.SetLoss(loss);
    Fetch(loss, "loss");
    return *b.Finish();
  };
  const auto text = [&](std::vector<Axis> axes) {
    const absl::StatusOr<Graph> graph = RunUpTo("insert-boxing", model(), On(std::move(axes)));
    EXPECT_OK(graph);
    return graph.ok() ? GraphToText(*graph) : "";
  };
  std::string named = text({{"ax_batch", 2, AxisRole::kBatch}, {"ax_model", 2, AxisRole::kModel}});
  EXPECT_THAT(named, HasSubstr("ax_model=2"));
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"ax_batch", "dp"}, {"ax_model", "tp"}}) {
    for (size_t at = named.find(from); at != std::string::npos; at = named.find(from))
      named.replace(at, from.size(), to);
  }
  EXPECT_EQ(named, text({{"dp", 2}, {"tp", 2}}));
}

TEST(NameAxesTest, APipelineLiesAlongTheAxisForStages) {
  GraphBuilder b(Ops(), "train");
  Tensor x = ReadSamples(b, 16).rows;
  {
    const GraphBuilder::PlacementScope second(b, {{"pp", 1}});
    x = Relu(x.To({{"pp", 1}}, {}));
  }
  Fetch(ReduceMean(x), "mean");
  const Graph graph = *b.Finish();
  ASSERT_OK_AND_ASSIGN(const Graph placed,
                       RunUpTo("place-nodes", graph, On({{"depth", 2, AxisRole::kStage}, {"dp", 2}})));
  EXPECT_EQ(NodeOf(placed, "relu").placement->ToString(), "[dp=2]{2,3}");
}

TEST(NameAxesTest, APlaceInARoleThatSeveralAxesHaveIsRefused) {
  GraphBuilder b(Ops(), "train");
  const GraphBuilder::PlacementScope scope(b, {{"tp", 1}});
  Fetch(ReduceMean(b.Variable("w", {DType::kFloat32, {8}}, "zeros")), "mean");
  const CompileOptions options = On({{"x", 2, AxisRole::kModel}, {"y", 2, AxisRole::kModel}});
  EXPECT_THAT(RunUpTo("name-axes", *b.Finish(), options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the mesh has 'x' and 'y' for that")));
  EXPECT_THAT(Mesh::Create({{"a", 2, AxisRole::kStage}, {"pp", 2}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a' and 'pp' are both for stages")));
}

TEST(NameAxesTest, AnAxisHasAWordForAName) {
  EXPECT_THAT(Mesh::Create({{"a=b", 2}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("axis 'a=b' has other")));
}

}  // namespace
}  // namespace oneflow::testing
