#include "oneflow_core/models/wide_deep.h"

#include "oneflow_core/verify.h"
#include "test/oneflow_core/graph_queries.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// The hint on a table along "tp".
std::string HintOf(const Graph& graph, absl::string_view table) {
  const NodeId id = graph.FindNode(table);
  EXPECT_GE(id, 0) << table;
  for (const AxisSbp& wish : graph.value(graph.node(id).outputs[0]).hint) {
    if (wish.axis == "tp") return ToString(NdSbp{wish.sbp});
  }
  return "none";
}

TEST(WideDeepTest, HasAWideAndADeepTable) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       WideDeepProgram({.embedding = 6, .widths = {10}}, {.fields = 3, .vocabulary = 50, .numbers = 2},
                                       {.train = 8, .evaluate = 4}, Ops()));
  ASSERT_EQ(program.size(), 2u);
  EXPECT_OK(VerifyGraph(program[0], Ops()));
  EXPECT_EQ(testing::NumParameters(program[0]), 50 * 2 + 50 * 6 + (20 * 10 + 10) + (10 * 2 + 2));
  EXPECT_THAT(testing::Fetches(program[0]), ElementsAre("loss"));
  EXPECT_THAT(testing::Fetches(program[1]), ElementsAre("loss", "accuracy"));
}

TEST(WideDeepTest, TablesAreSplitAsAsked) {
  const auto hints = [](TableSplit split) {
    const std::vector<Graph> program = *WideDeepProgram({.split = split}, {}, {.train = 8}, Ops());
    return HintOf(program[0], "wide/table") + HintOf(program[0], "deep/table");
  };
  EXPECT_EQ(hints(TableSplit::kRows), "(S(0))(S(0))");
  EXPECT_EQ(hints(TableSplit::kColumns), "(S(0))(S(1))");
  EXPECT_EQ(hints(TableSplit::kNone), "(B)(B)");
}

TEST(WideDeepTest, RefusesImpossibleConfigsNamingTheField) {
  EXPECT_THAT(WideDeepProgram({.embedding = 0}, {}, {.train = 8}, Ops()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("wide_deep: the embedding's width is 0")));
  EXPECT_THAT(WideDeepProgram({}, {.fields = 9, .vocabulary = 8}, {.train = 8}, Ops()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("wide_deep: the vocabulary is 8")));
}

}  // namespace
}  // namespace oneflow
