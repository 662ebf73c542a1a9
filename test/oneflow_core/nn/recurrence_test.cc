#include "oneflow_core/nn/recurrence.h"

#include "oneflow_core/functional.h"
#include "test/oneflow_core/nn/module_test.h"
#include "test/support/names.h"

namespace oneflow::nn {
namespace {

using RecurrenceTest = testing::ModuleTest;

TEST_F(RecurrenceTest, LayersHaveWeightsOfInputsAndOfStates) {
  const Recurrence lstm = Lstm(Input({DType::kFloat32, {2, 5, 8}}), "rnn", {.width = 4, .layers = 2});
  EXPECT_EQ(lstm.y.shape(), Shape({2, 5, 4}));
  ASSERT_EQ(lstm.last.h.size(), 2);
  EXPECT_EQ(lstm.last.c[1].shape(), Shape({2, 4}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph),
              ElementsAre(Pair("rnn/l0/h/bias", "f32[16] zeros"), Pair("rnn/l0/h/weight", "f32[4,16] uniform(0.5)"),
                          Pair("rnn/l0/x/bias", "f32[16] zeros"), Pair("rnn/l0/x/weight", "f32[8,16] uniform(0.5)"),
                          Pair("rnn/l1/h/bias", "f32[16] zeros"), Pair("rnn/l1/h/weight", "f32[4,16] uniform(0.5)"),
                          Pair("rnn/l1/x/bias", "f32[16] zeros"), Pair("rnn/l1/x/weight", "f32[4,16] uniform(0.5)")));
}

// The states behind one chunk are those before the next.
TEST_F(RecurrenceTest, ChunksGoOnFromEachOther) {
  const Tensor x = Input({DType::kFloat32, {2, 7, 8}}), h0 = Constant(builder_, {DType::kFloat32, {2, 4}}, 1);
  const Recurrence gru = Gru(x, "rnn", {.width = 4, .chunk = 3}, {.h = {h0}});
  EXPECT_EQ(gru.y.shape(), Shape({2, 7, 4}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  std::vector<const Node*> chunks;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (graph.node(id).op == "gru") chunks.push_back(&graph.node(id));
  }
  ASSERT_EQ(chunks.size(), 3);
  EXPECT_EQ(graph.value(chunks[2]->inputs[0]).type.shape, Shape({2, 1, 12}));
  EXPECT_EQ(chunks[0]->inputs[3], h0.id());
  const Node& reshape = graph.node(graph.value(chunks[1]->inputs[3]).producer);
  const Node& last = graph.node(graph.value(reshape.inputs[0]).producer);
  EXPECT_EQ(last.inputs[0], chunks[0]->outputs[0]);
  EXPECT_EQ(last.attrs.Int("start"), 2);
}

TEST_F(RecurrenceTest, RefusesAnInputWithoutTime) {
  EXPECT_FALSE(Gru(Input({DType::kFloat32, {5, 8}}), "rnn", {.width = 4}).y.valid());
  EXPECT_THAT(builder_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("gru 'rnn': the input must be [batch, time, width] but is f32[5,8]")));
}

TEST_F(RecurrenceTest, RefusesStatesOfOtherLayers) {
  const Tensor x = Input({DType::kFloat32, {2, 5, 8}}), h0 = Constant(builder_, {DType::kFloat32, {2, 4}}, 1);
  EXPECT_FALSE(Lstm(x, "rnn", {.width = 4, .layers = 2}, {.h = {h0}}).y.valid());
  EXPECT_THAT(builder_.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("initial states of 1 layers, and cells of 0, are not those of 2")));
}

TEST_F(RecurrenceTest, RefusesToHaveNoUnits) {
  Lstm(Input({DType::kFloat32, {2, 5, 8}}), "rnn", {});
  EXPECT_THAT(builder_.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("lstm 'rnn': width 0, layers 1 and chunk 0 must be positive")));
}

}  // namespace
}  // namespace oneflow::nn
