#include "compiler/explain/scopes.h"

#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

// A graph with nodes of these names, and a backward one behind each.
Graph WithNames(const std::vector<std::string>& names) {
  Graph graph("names");
  for (const Role role : {Role::kForward, Role::kInputGradient}) {
    for (const std::string& name : names) {
      Node node;
      node.op = "constant";
      node.name = role == Role::kForward ? name : name + "/grad";
      node.role = role;
      graph.AddNode(std::move(node), {});
    }
  }
  return graph;
}

const std::vector<std::string> kNames = {"wte/weight",  "h0/ln1/norm", "h0/ln2/norm",  "h0/add",     "h1/ln1/norm",
                                         "h1/ln2/norm", "h1/add",      "h12/ln1/norm", "head/matmul"};

TEST(ScopesTest, RepeatedScopesHaveOneRole) {
  const Scopes scopes(WithNames(kNames), Ops());
  EXPECT_EQ(scopes.Role("h0/ln1/norm"), "h*/ln1/norm");
  EXPECT_EQ(scopes.Role("h12/ln1/norm"), "h*/ln1/norm");
  EXPECT_EQ(scopes.Role("h1/add/grad"), "h*/add/grad");
  EXPECT_EQ(scopes.Role("wte/weight"), "wte/weight");
}

TEST(ScopesTest, ScopesOfOpsAloneAreNotFolded) {
  const Scopes scopes(WithNames({"conv1/weight", "conv2/weight", "fc/weight"}), Ops());
  EXPECT_EQ(scopes.Role("conv1/weight"), "conv1/weight");
}

TEST(ScopesTest, AScopeThatStandsAloneIsNotFolded) {
  const Scopes scopes(WithNames({"h0/ln1/norm", "g1/ln1/norm"}), Ops());
  EXPECT_EQ(scopes.Role("h0/ln1/norm"), "h0/ln1/norm");
}

TEST(ScopesTest, PathsNameTheGroupBeforeItsMember) {
  const Scopes scopes(WithNames(kNames), Ops());
  EXPECT_THAT(scopes.Path("h1/ln2/norm"), ElementsAre("h*", "h1", "h1/ln2"));
  EXPECT_THAT(scopes.Path("head/matmul"), ElementsAre("head"));
  EXPECT_THAT(scopes.Path("loss"), IsEmpty());
}

TEST(ScopesTest, WhatIsDerivedFromANodeLiesBesideIt) {
  const Scopes scopes(WithNames(kNames), Ops());
  EXPECT_THAT(scopes.Path("h1/ln2/norm/grad"), ElementsAre("h*", "h1", "h1/ln2"));
  EXPECT_EQ(scopes.Inside("h1/ln2/norm/grad"), "norm/grad");
  EXPECT_EQ(scopes.Inside("loss"), "loss");
}

}  // namespace
}  // namespace oneflow::testing
