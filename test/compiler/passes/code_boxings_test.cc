#include "gmock/gmock.h"
#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

using ::testing::ElementsAre;

// On one stage nothing goes to another, and a weight that has copies is not gathered.
TEST(CodeBoxingsTest, WarnsWhereLevelsChangeNothing) {
  CompileOptions options = Options({{"dp", 2}});
  options.compress.emplace();
  options.compress->axis = "dp";
  options.compress->weights.bits = 4;
  options.compress->stages.bits = 4;
  PassContext context{options, Ops(), {}, JobTopology(options)};
  ASSERT_OK_AND_ASSIGN(Graph graph, RunUpTo("insert-boxing", Mlp(), Options({{"dp", 2}})));
  ASSERT_OK_AND_ASSIGN(const bool changed, CodeBoxings(graph, context));
  EXPECT_FALSE(changed);
  EXPECT_THAT(context.warnings,
              ElementsAre("graph 'mlp': compress.weights changes nothing: no weight that lies split along 'dp' is "
                          "gathered in whole buckets of levels",
                          "graph 'mlp': compress.stages changes nothing: nothing that a micro-batch makes goes to "
                          "another stage in whole buckets of levels"));
}

}  // namespace
}  // namespace oneflow::testing
