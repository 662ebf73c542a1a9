#include "gmock/gmock.h"
#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

using ::testing::HasSubstr;

// [samples, tokens, width], twice through two products whose weights lie split along `axis`, and a residual.
Graph Pairs(const std::string& axis, int64_t tokens = 6) {
  GraphBuilder b(Ops(), "pairs");
  Tensor x = Reshape(ReadSamples(b, 4 * tokens).rows, {4, tokens, 16});
  for (const std::string name : {"first", "second"}) {
    const Tensor up = Weight(b, name + "/up", {16, 64}, {{axis, Sbp::Split(1)}}),
                 down = Weight(b, name + "/down", {64, 16}, {{axis, Sbp::Split(0)}});
    x = Add(x, MatMul(Relu(MatMul(Tanh(x), up)), down));
  }
  b.SetLoss(ReduceMean(Square(x)));
  return *b.Finish();
}

CompileOptions Parallel(std::vector<Axis> axes) {
  CompileOptions options = Options(std::move(axes));
  options.sequence_parallel = true;
  return options;
}

TEST(SequenceParallelTest, BetweenSplitProductsTokensAreSplit) {
  for (const std::string axis : {"tp", "columns"}) {
    SCOPED_TRACE(axis);
    const std::vector<Axis> axes = {{"dp", 2}, {axis, 2, AxisRole::kModel}};
    ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("select-sbp", Pairs(axis), Parallel(axes)));
    for (const char* const name : {"matmul_2", "matmul_4"}) EXPECT_EQ(SbpOf(graph, name), "(S(0),P)");
    for (const char* const name : {"matmul", "matmul_3"}) EXPECT_EQ(SbpOf(graph, name), "(S(0),S(2))");
    for (const char* const name : {"add", "tanh_2", "add_2"}) EXPECT_EQ(SbpOf(graph, name), "(S(0),S(1))") << name;
    ASSERT_OK_AND_ASSIGN(const Graph whole, RunUpTo("select-sbp", Pairs(axis), Options(axes)));
    EXPECT_EQ(SbpOf(whole, "add"), "(S(0),B)") << "it is asked for";
  }
}

// A mesh without such an axis, and a model whose weights do not lie like that.
TEST(SequenceParallelTest, WarnsWhereItChangesNothing) {
  for (const auto& [axis, mesh] : {std::pair{"tp", "dp"}, std::pair{"dp", "tp"}}) {
    const CompileOptions options = Parallel({{mesh, 2}});
    PassContext context{options, Ops(), {}, JobTopology(options)};
    Graph graph = Pairs(axis);
    ASSERT_OK_AND_ASSIGN(const bool changed, SequenceParallel(graph, context));
    EXPECT_FALSE(changed);
    ASSERT_EQ(context.warnings.size(), 1u);
    EXPECT_THAT(context.warnings[0], HasSubstr("sequence.parallel changes nothing"));
  }
}

}  // namespace
}  // namespace oneflow::testing
