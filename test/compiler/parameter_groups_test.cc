#include "compiler/parameter_groups.h"

#include <map>
#include <tuple>

#include "oneflow_core/models/gpt.h"
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

TEST(ParameterGroupsTest, APatternMatchesTheWholeName) {
  for (const auto& [pattern, name, matches] : std::vector<std::tuple<std::string, std::string, bool>>{
           {"h0/ln1/gamma", "h0/ln1/gamma", true},
           {"h0/ln1", "h0/ln1/gamma", false},
           {"ln1/gamma", "h0/ln1/gamma", false},
           {"h*/ln*", "h0/ln1/gamma", true},
           {"h*/ln*", "h0/attn/weight", false},
           {"*", "", true},
           {"*", "w", true},
           {"", "", true},
           {"", "w", false},
           {"h?/*", "h0/w", true},
           {"h?/*", "h10/w", false},
           {"*bias", "a/bias/bias", true},
           {"*a*b", "aaab", true},
           {"*a*b", "aaabc", false},
           {"**?", "x", true},
           {"**?", "", false},
           // In a time that does not grow with the number of ways to divide it.
           {std::string(60, '*') + "y", std::string(2000, 'x'), false}}) {
    EXPECT_EQ(MatchesPattern(pattern, name), matches) << "'" << pattern << "' and '" << name << "'";
  }
}

ParameterGroup Group(const std::string& match, const std::string& rule = "adamw") {
  ParameterGroup group;
  group.match = match;
  group.rule = rule;
  return group;
}

TEST(ParameterGroupsTest, TheFirstThatMatchesHasTheVariable) {
  OptimizerOptions optimizer;
  optimizer.rule = "sgd";
  optimizer.groups = {Group("up", "lamb"), Group("u*", "adamw")};
  EXPECT_EQ(GroupOf(optimizer, "up"), 0);
  EXPECT_EQ(GroupOf(optimizer, "upper"), 1);
  EXPECT_EQ(GroupOf(optimizer, "down"), -1);
  EXPECT_EQ(UpdateOf(optimizer, "up").rule, "lamb");
  EXPECT_EQ(UpdateOf(optimizer, "down").rule, "sgd");
}

TEST(ParameterGroupsTest, AGroupWithoutVariablesIsRefused) {
  const Graph graph = Mlp();
  OptimizerOptions optimizer;
  optimizer.groups = {Group("up"), Group("dwon"), Group("u*"), Group("d*")};
  EXPECT_OK(CheckGroup(optimizer, 0, graph, Ops()));
  EXPECT_THAT(
      CheckGroup(optimizer, 1, graph, Ops()),
      StatusIs(absl::StatusCode::kInvalidArgument, "'dwon' matches no trainable variable; there are 'up', 'down'"));
  EXPECT_THAT(CheckGroup(optimizer, 2, graph, Ops()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "all that 'u*' matches is in groups before this one: 'up' (groups[0])"));
  EXPECT_OK(CheckGroup(optimizer, 3, graph, Ops()));
}

// Tokens are looked up in a table, positions are added, and the head makes the outputs.
TEST(ParameterGroupsTest, HiddenMatricesAreThoseBetweenTablesAndTheHead) {
  for (const DType compute : {DType::kFloat32, DType::kBFloat16}) {
    GptConfig config;
    config.layers = 1;
    config.width = 8;
    config.heads = 2;
    config.context = 4;
    ASSERT_OK_AND_ASSIGN(const Program program,
                         GptProgram(config, {.path = "text"}, {.train = 2}, std::nullopt, Ops()));
    CompileOptions options = Options({});
    options.precision.compute = compute;
    ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("mixed-precision", program[0], options));
    const std::vector<bool> hidden = HiddenMatrices(graph, Ops());
    std::vector<std::string> names;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      if (hidden[id]) names.push_back(graph.node(id).name);
    }
    EXPECT_THAT(names, ElementsAre("h0/attn/q/weight", "h0/attn/k/weight", "h0/attn/v/weight", "h0/attn/o/weight",
                                   "h0/mlp/up/weight", "h0/mlp/down/weight"));
  }
}

TEST(ParameterGroupsTest, UpdatesFollowTheirGroups) {
  CompileOptions options = Options({});
  options.optimizer.weight_decay = 0.5;
  options.optimizer.groups = {Group("up", "sgd")};
  options.optimizer.groups[0].rate = 0.25;
  options.optimizer.groups[0].attributes.Set("momentum", 0.75);
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("optimizer", Mlp(), options));
  const Node &up = NodeOf(graph, "up/update"), &down = NodeOf(graph, "down/update");
  EXPECT_EQ(up.op, "sgd_update");
  EXPECT_EQ(up.attrs.Double("momentum"), 0.75);
  EXPECT_EQ(up.attrs.Double("weight_decay"), 0);
  EXPECT_EQ(ProducerOf(graph, up, 3).op, "scale");
  EXPECT_EQ(ProducerOf(graph, up, 3).attrs.Double("alpha"), 0.25);
  EXPECT_EQ(ProducerOf(graph, ProducerOf(graph, up, 3), 0).name, "optimizer/lr");
  EXPECT_EQ(down.op, "adamw_update");
  EXPECT_EQ(down.attrs.Double("weight_decay"), 0.5);
  EXPECT_EQ(ProducerOf(graph, down, 4).name, "optimizer/lr");
}

TEST(ParameterGroupsTest, AGroupMayDecayVectorsToo) {
  GraphBuilder b(Ops(), "g");
  b.SetLoss(ReduceMean(BiasAdd(MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4})), Weight(b, "bias", {4}))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  CompileOptions options = Options({});
  options.optimizer.groups = {Group("*")};
  options.optimizer.groups[0].weight_decay = 0.25;
  options.optimizer.groups[0].decays_vectors = true;
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("optimizer", std::move(graph), options));
  EXPECT_EQ(NodeOf(graph, "bias/update").attrs.Double("weight_decay"), 0.25);
}

// The first layer is frozen: the gradient of its products, and what leads there, is not computed.
TEST(ParameterGroupsTest, WhatIsFrozenHasNeitherGradientNorState) {
  CompileOptions options = Options({});
  options.optimizer.groups = {Group("up")};
  options.optimizer.groups[0].frozen = true;
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("remove-dead-code", Mlp(), options));
  EXPECT_THAT(NamesOf(graph, "variable"),
              ::testing::UnorderedElementsAre("up", "down", "down/adam_m", "down/adam_v", "optimizer/step"));
  EXPECT_THAT(NamesOf(graph, "matmul_wgrad"), ::testing::SizeIs(1));
  EXPECT_THAT(NamesOf(graph, "relu_grad"), ElementsAre());
  EXPECT_TRUE(NodeOf(graph, "up").attrs.Bool("trainable")) << "it is a weight still: it is saved and loaded";
}

TEST(ParameterGroupsTest, SomethingIsToBeTrained) {
  CompileOptions options = Options({});
  options.optimizer.groups = {Group("*")};
  options.optimizer.groups[0].frozen = true;
  EXPECT_THAT(RunUpTo("optimizer", Mlp(), options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no trainable variable that is not frozen")));
}

TEST(ParameterGroupsTest, ARuleForMatricesLeavesTheRestToAnother) {
  GraphBuilder b(Ops(), "g");
  const Tensor x = Relu(BiasAdd(MatMul(ReadSamples(b, 4).rows, Weight(b, "inside", {16, 8})), Weight(b, "bias", {8})));
  b.SetLoss(ReduceMean(MatMul(x, Weight(b, "head", {8, 4}))));
  ASSERT_OK_AND_ASSIGN(const Graph graph, b.Finish());
  CompileOptions options = Options({});
  options.optimizer.rule = "muon";
  options.optimizer.weight_decay = 0.125;
  ASSERT_OK_AND_ASSIGN(const Graph muon, RunUpTo("optimizer", graph, options));
  EXPECT_THAT(NamesOf(muon, "adamw_update"), ElementsAre("bias/update", "head/update"));
  EXPECT_EQ(NodeOf(muon, "head/update").attrs.Double("weight_decay"), 0.125);
  EXPECT_GE(muon.FindNode("inside/muon_momentum"), 0);
  EXPECT_THAT(NamesOf(muon, "batch_matmul"), ::testing::SizeIs(15));
  // A group that asks for it has it, if that can be.
  options.optimizer.groups = {Group("head", "muon")};
  options.optimizer.groups[0].is_own_rule = true;
  ASSERT_OK_AND_ASSIGN(const Graph both, RunUpTo("optimizer", graph, options));
  EXPECT_THAT(NamesOf(both, "adamw_update"), ElementsAre("bias/update"));
  options.optimizer.groups[0].match = "bias";
  EXPECT_THAT(RunUpTo("optimizer", graph, options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("node 'bias'"), HasSubstr("is f32[8], but 'muon' updates matrices alone"))));
}

// State is a row and a column of the matrix, and lies as they do.
TEST(ParameterGroupsTest, StateOfRowsAndColumnsLiesAsTheWeightDoes) {
  CompileOptions options = Options({});
  options.optimizer.rule = "adafactor";
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("optimizer", Mlp(8, 32, {{"tp", Sbp::Split(1)}}), options));
  const auto value = [&](const char* name) { return graph.value(NodeOf(graph, name).outputs[0]); };
  EXPECT_EQ(value("up/adafactor_rows").type.ToString(), "f32[16,1]");
  EXPECT_EQ(value("up/adafactor_columns").type.ToString(), "f32[1,32]");
  EXPECT_EQ(ToString(value("up/adafactor_rows").hint), "tp:B");
  EXPECT_EQ(ToString(value("up/adafactor_columns").hint), "tp:S(1)");
  EXPECT_EQ(graph.FindNode("up/adafactor_v"), -1);
}

}  // namespace
}  // namespace oneflow::testing
