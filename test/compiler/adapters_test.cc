#include "compiler/adapters.h"

#include "compiler/parameter_groups.h"
#include "oneflow_core/variable_role.h"
#include "oneflow_core/verify.h"
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

auto Refused(const ::testing::Matcher<const std::string&>& message) {
  return StatusIs(absl::StatusCode::kInvalidArgument, message);
}

AdapterOptions For(std::vector<std::string> match) {
  return {.match = std::move(match), .rank = 2, .alpha = 8, .dropout = 0.5, .also = {}};
}

// A table that ids are looked up in, a matrix, and a head that rows are multiplied by the other way round: the table
// itself if it is tied.
Graph TableModel(bool trained, bool tied = false) {
  GraphBuilder b(Ops(), trained ? "train" : "evaluate");
  const Samples samples = ReadSamples(b, 8);
  const Tensor table = Weight(b, "table", {10, 16});
  const Tensor h = MatMul(b.Op1("embedding", {table, samples.labels}), Weight(b, "mid", {16, 16}));
  const Tensor head = tied ? table : Weight(b, "head", {10, 16});
  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(MatMul(h, head, /*transpose_b=*/true), samples.labels));
  if (trained) b.SetLoss(loss);
  Fetch(loss, "loss");
  return *b.Finish();
}

TEST(AdaptersTest, AProductGetsTheProductOfTwoThinMatrices) {
  Program program = {Mlp(8, 32, {{"tp", Sbp::Split(1)}}, {{"tp", Sbp::Split(0)}})};
  ASSERT_OK(AddAdapters(For({"up", "down"}), Ops(), program));
  const Graph& graph = program[0];
  ASSERT_OK(VerifyGraph(graph, Ops()));
  const auto type = [&](const std::string& name) {
    return graph.value(NodeOf(graph, name).outputs[0]).type.ToString();
  };
  EXPECT_EQ(type("up/lora_a"), "f32[16,2]");
  EXPECT_EQ(type("up/lora_b"), "f32[2,32]");
  EXPECT_EQ(type("down/lora_a"), "f32[32,2]");
  EXPECT_EQ(type("down/lora_b"), "f32[2,4]");
  for (const char* name : {"up/lora_a", "up/lora_b"}) {
    EXPECT_EQ(RoleOfVariable(NodeOf(graph, name).attrs), VariableRole::kAdapter);
  }
  EXPECT_EQ(NodeOf(graph, "up/lora_a").attrs.String("init"), "uniform(0.25)") << "1 / sqrt(16)";
  EXPECT_EQ(NodeOf(graph, "up/lora_b").attrs.String("init"), "zeros");
  // They lie as the weight does: what is split of it is split of them.
  const auto hint = [&](const std::string& name) { return ToString(graph.value(NodeOf(graph, name).outputs[0]).hint); };
  EXPECT_EQ(hint("up/lora_a"), ToString(SbpHint()));
  EXPECT_EQ(hint("up/lora_b"), ToString(SbpHint{{"tp", Sbp::Split(1)}}));
  EXPECT_EQ(hint("down/lora_a"), ToString(SbpHint{{"tp", Sbp::Split(0)}}));
  // relu reads the sum: the product and 4 times what is thin.
  const Node& sum = ProducerOf(graph, NodeOf(graph, "relu"), 0);
  EXPECT_EQ(sum.op, "add");
  EXPECT_EQ(ProducerOf(graph, sum, 0).name, "matmul");
  const Node& scale = ProducerOf(graph, sum, 1);
  EXPECT_EQ(scale.attrs.Double("alpha"), 4);
  const Node& first = ProducerOf(graph, ProducerOf(graph, scale, 0), 0);
  EXPECT_EQ(ProducerOf(graph, first, 0).op, "dropout");
  EXPECT_EQ(ProducerOf(graph, first, 1).name, "up/lora_a");
}

TEST(AdaptersTest, AMatrixThatIsReadTheOtherWayBeginsWithTheOtherFactor) {
  Program program = {TableModel(true), TableModel(false)};
  ASSERT_OK(AddAdapters(For({"head"}), Ops(), program));
  for (const Graph& graph : program) {
    SCOPED_TRACE(graph.name());
    ASSERT_OK(VerifyGraph(graph, Ops()));
    EXPECT_EQ(NodeOf(graph, "head/lora_a").attrs.String("init"), "zeros");
    EXPECT_EQ(NodeOf(graph, "head/lora_b").attrs.String("init"), "uniform(0.25)");
    EXPECT_THAT(NamesOf(graph, "dropout"), SizeIs(graph.is_trained() ? 1 : 0));
    EXPECT_EQ(graph.FindNode("mid/lora_a"), -1);
  }
}

TEST(AdaptersTest, WeightsBesideThemAreNotTrainedUnlessTheyAreNamed) {
  Program program = {Mlp()};
  OptimizerOptions optimizer;
  optimizer.adapters = For({"up"});
  const auto trained = [&](const std::string& name) { return IsTrained(NodeOf(program[0], name), Ops(), optimizer); };
  ASSERT_OK(AddAdapters(*optimizer.adapters, Ops(), program));
  EXPECT_TRUE(trained("up/lora_a"));
  EXPECT_TRUE(trained("up/lora_b"));
  EXPECT_FALSE(trained("up"));
  EXPECT_FALSE(trained("down"));
  optimizer.adapters->also = {"d*"};
  EXPECT_TRUE(trained("down"));
  optimizer.groups.resize(2);
  optimizer.groups[0].match = "*/lora_b";
  optimizer.groups[1].match = "up";
  EXPECT_OK(CheckGroup(optimizer, 0, program[0], Ops()));
  EXPECT_THAT(CheckGroup(optimizer, 1, program[0], Ops()),
              Refused(HasSubstr("'up' matches no trainable variable; there are 'down', 'up/lora_a', 'up/lora_b'")));
}

TEST(AdaptersTest, WhatMatchesNothingIsRefused) {
  const auto error = [](const AdapterOptions& options, Program program = {Mlp()}) {
    return AddAdapters(options, Ops(), program);
  };
  EXPECT_THAT(error(For({"up", "upp"})),
              Refused("match: 'upp' matches no matrix that rows are multiplied by and nothing "
                      "else reads; there are 'down', 'up'"));
  EXPECT_THAT(
      error(For({"mid", "table"}), {TableModel(true, /*tied=*/true)}),
      Refused(HasSubstr("'table' matches no matrix that rows are multiplied by and nothing else reads; there are "
                        "'mid'")));
  // One graph looks up what the other one only multiplies by.
  GraphBuilder b(Ops(), "multiplies");
  Fetch(ReduceMean(MatMul(ReadSamples(b, 8).rows, Weight(b, "table", {10, 16}), /*transpose_b=*/true)), "mean");
  const Graph multiplies = *b.Finish();
  EXPECT_OK(error(For({"table"}), {multiplies}));
  EXPECT_THAT(error(For({"table"}), {multiplies, TableModel(false)}), Refused(HasSubstr("'table' matches no matrix")));
  AdapterOptions options = For({"up"});
  options.also = {"head"};
  EXPECT_THAT(error(options), Refused("also: 'head' matches no weight; there are 'down', 'up'"));
  Program twice = {Mlp()};
  ASSERT_OK(AddAdapters(For({"up"}), Ops(), twice));
  EXPECT_THAT(error(For({"up"}), twice), Refused(HasSubstr("its name is that of the adapter of 'up'")));
}

}  // namespace
}  // namespace oneflow::testing
