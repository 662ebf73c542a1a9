#include "compiler/parameter_groups.h"

#include <map>
#include <tuple>

#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace oneflow::testing
