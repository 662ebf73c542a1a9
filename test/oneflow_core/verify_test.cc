#include "oneflow_core/verify.h"

#include <functional>

#include "oneflow_core/graph_editor.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

//   %0 = variable "w"   %1 = relu "relu"   %2, %3 = max_pool2d "max_pool2d"   %4 = reduce_sum "reduce_sum", the loss
Graph GoodGraph() {
  GraphEditor b(Ops(), Graph("good"));
  b.set_source("user.cc:5");
  const Tensor w = b.Variable("w", {DType::kFloat32, {1, 1, 4, 4}}, "zeros");
  const Tensor x = b.Op1("relu", {w});
  const std::vector<Tensor> pooled = b.Op("max_pool2d", {x}, {{"kernel", int64_t{2}}, {"stride", int64_t{2}}});
  b.SetLoss(b.Op1("reduce_sum", {pooled[0]}, {{"axes", std::vector<int64_t>{0, 1, 2, 3}}}));
  b.Op("assign", {w, x});
  return *b.Finish();
}

TEST(VerifyTest, AcceptsAGraphAsTheBuilderMakesIt) {
  EXPECT_OK(VerifyGraph(GoodGraph(), Ops()));
  EXPECT_OK(VerifyGraph(Graph("empty"), Ops()));
}

namespace broken {

struct Case {
  std::function<void(Graph&)> damage;
  std::string error;
};
const Placement pair({{"dp", 2}}, {0, 1});
const Case kCases[] = {
    {[](Graph& g) { g.node(1).name = ""; }, "node '' (relu, user.cc:5): node 1 has no name"},
    {[](Graph& g) { g.node(1).name = "w"; }, "node 'w' (relu, user.cc:5): node 1 has the name of node 0"},
    {[](Graph& g) { g.node(1).op = "rellu"; }, "node 'relu' (rellu, user.cc:5): no op 'rellu'"},
    {[](Graph& g) { g.node(1).inputs = {7}; }, "node 'relu' (relu, user.cc:5): reads %7, but the graph has 5 values"},
    {[](Graph& g) { g.node(1).inputs = {-1}; }, "reads %-1, but the graph has 5 values"},
    {[](Graph& g) { g.node(1).inputs = {1}; }, "reads %1 of node 1, which does not come before node 1"},
    {[](Graph& g) { g.node(1).inputs = {4}; }, "reads %4 of node 3, which does not come before node 1"},
    {[](Graph& g) { g.node(1).inputs = {}; }, "node 'relu' (relu, user.cc:5): "},
    {[](Graph& g) {
       g.node(2).outputs = {3, 2};
     },
     "output 0 is %3, not %2"},
    {[](Graph& g) { g.node(2).outputs = {2}; }, "node 'reduce_sum' (reduce_sum, user.cc:5): output 0 is %4, not %3"},
    {[](Graph& g) { g.node(4).outputs = {5}; }, "output 0 is %5, but the graph has 5 values"},
    {[](Graph& g) { g.node(3).outputs = {}; }, "the nodes have 4 outputs, the graph 5 values"},
    {[](Graph& g) { g.value(3).producer = 0; }, "output 1 is %3, which calls itself output 1 of node 0"},
    {[](Graph& g) { g.value(3).output = 0; }, "output 1 is %3, which calls itself output 0 of node 2"},
    {[](Graph& g) { g.value(1).type.dtype = DType::kFloat16; },
     "declared as (f16[1,1,4,4]), but on (f32[1,1,4,4]) the op gives (f32[1,1,4,4])"},
    {[](Graph& g) {
       g.node(4).inputs = {1, 1};
     },
     "node 'assign' (assign, user.cc:5): overwrites input 0, which is no variable but comes from node 'relu' (relu"},
    {[](Graph& g) { g.losses = {9}; }, "the loss is %9, but the graph has 5 values"},
    {[](Graph& g) { g.losses = {1}; },
     "the loss must be f32[] but is %1, f32[1,1,4,4] of node 'relu' (relu, user.cc:5)"},
    {[](Graph& g) { g.node(1).after = {1}; }, "node 'relu' (relu, user.cc:5): runs after %1, which no node before"},
    {[](Graph& g) { g.node(1).after = {-2}; }, "runs after %-2"},
    {[](Graph& g) { g.node(1).segment = 0; }, "node 'relu' (relu, user.cc:5): is in segment 0, but the graph has 0"},
    {[](Graph& g) { g.segments = {Segment{"a b"}}; }, "segment 0: kind 'a b' is not a word"},
    {[](Graph& g) {
       g.segments = {Segment{"layers", 0}};
     },
     "segment 0 lies in segment 0, which does not come before it"},
    {[](Graph& g) { g.node(1).attrs.Set("a b", true); }, "attribute 'a b' is not a word"},
    {[](Graph& g) {
       g.value(1).hint = {{"tp", Sbp::Split(4)}};
     },
     "node 'relu' (relu, user.cc:5): %1: hint tp:S(4): S(4) splits a dimension that f32[1,1,4,4] does not have"},
    {[](Graph& g) {
       g.value(1).hint = {{"tp", Sbp()}, {"tp", Sbp()}};
     },
     "axis 'tp' is named twice"},
    {[](Graph& g) {
       g.value(1).hint = {{"", Sbp()}};
     },
     "axis '' is not a word"},
    {[](Graph& g) {
       g.node(1).at = {{"pp", -2}};
     },
     "placement hint pp=-2 is negative"},
    {[](Graph& g) {
       g.node(1).at = {{"p:p", 0}};
     },
     "axis 'p:p' is not a word"},
    {[](Graph& g) {
       g.value(1).dist = DistType{pair, {}};
     },
     "layout [dp=2]{0,1}(): 0 SBPs for 1 axes"},
    {[](Graph& g) {
       g.value(1).dist = DistType{pair, {Sbp::Split(5)}};
     },
     "S(5) splits a dimension"},
    {[](Graph& g) {
       g.node(1).placement = Placement({{"d p", 1}}, {0});
     },
     "axis 'd p' is not a word"},
};

}  // namespace broken

TEST(VerifyTest, NamesTheNodeItsLineAndBothValuesOfEachBrokenInvariant) {
  for (const auto& c : broken::kCases) {
    SCOPED_TRACE(c.error);
    Graph graph = GoodGraph();
    c.damage(graph);
    EXPECT_THAT(VerifyGraph(graph, Ops()), StatusIs(absl::StatusCode::kInvalidArgument,
                                                    ::testing::AllOf(HasSubstr("graph 'good': "), HasSubstr(c.error))));
  }
}

TEST(VerifyTest, AWrongAnnotationLeadsBackToTheLineThatMadeIt) {
  GraphBuilder b(Ops(), "annotated");
  const Tensor w = b.Variable("w", {DType::kFloat32, {4, 4}}, "zeros");
  const std::source_location here = std::source_location::current();
  w.To({{"tp", Sbp::Split(2)}}, here);
  ASSERT_OK_AND_ASSIGN(const Graph graph, b.Finish());
  EXPECT_THAT(VerifyGraph(graph, Ops()), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  HasSubstr(absl::StrCat("node 'to' (to, oneflow_core/verify_test.cc:",
                                                                         here.line(), "): %1: hint tp:S(2)"))));
}

TEST(VerifyTest, WordsAreWhatTextFormsNeedNotQuote) {
  for (const char* word : {"a", "_", "dp", "weight_decay", "B2"}) EXPECT_TRUE(IsWord(word)) << word;
  for (const char* other : {"", "2a", "a-b", "a b", "é", "a=", "\n"}) EXPECT_FALSE(IsWord(other)) << other;
}

}  // namespace
}  // namespace oneflow
