#include "oneflow_core/models/gpt.h"

#include <cmath>

#include "oneflow_core/nn/initial.h"
#include "oneflow_core/verify.h"
#include "test/oneflow_core/graph_queries.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

const GptConfig kSmall{.vocabulary = 16, .layers = 2, .width = 8, .heads = 2, .context = 6};

absl::StatusOr<std::vector<Graph>> Program(const GptConfig& config, const Continuation& generation = {"\n", 0.5}) {
  return GptProgram(config, {.path = "text"}, {.train = 4, .evaluate = 3}, generation, Ops());
}

int64_t ExpectedParameters(const GptConfig& c) {
  const int64_t norm = 2 * c.width;
  const int64_t attention = 4 * (c.width * c.width + c.width);
  const int64_t mlp = c.width * 4 * c.width + 4 * c.width + 4 * c.width * c.width + c.width;
  const int64_t tables = c.vocabulary * c.width + c.context * c.width;
  const int64_t head = c.tied_embedding ? 0 : c.width * c.vocabulary;
  return tables + c.layers * (2 * norm + attention + mlp) + norm + head;
}

TEST(GptTest, HasThreeGraphsThatFetchWhatTheyAreFor) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program, Program(kSmall));
  ASSERT_EQ(program.size(), 3u);
  const Graph &train = program[0], &evaluate = program[1], &generate = program[2];
  EXPECT_EQ(train.name(), "train");
  EXPECT_TRUE(train.is_trained());
  EXPECT_THAT(testing::Fetches(train), ElementsAre("loss"));
  EXPECT_EQ(evaluate.name(), "evaluate");
  EXPECT_FALSE(evaluate.is_trained());
  EXPECT_THAT(testing::Fetches(evaluate), ElementsAre("loss"));
  EXPECT_EQ(generate.name(), "generate");
  EXPECT_FALSE(generate.is_trained());
  EXPECT_THAT(testing::Fetches(generate), ElementsAre("token"));
  for (const Graph& graph : program) EXPECT_OK(VerifyGraph(graph, Ops()));
}

TEST(GptTest, AllGraphsShareTheSameParameters) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program, Program(kSmall));
  EXPECT_EQ(testing::Parameters(program[0]), testing::Parameters(program[1]));
  EXPECT_EQ(testing::Parameters(program[0]), testing::Parameters(program[2]));
}

TEST(GptTest, MakesOnlyTheGraphsThatAreAskedFor) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       GptProgram(kSmall, {.path = "text"}, {.train = 4}, std::nullopt, Ops()));
  ASSERT_EQ(program.size(), 1u);
  EXPECT_EQ(program[0].name(), "train");
}

TEST(GptTest, HasTheParametersThatItsShapeImplies) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> small, Program(kSmall));
  EXPECT_EQ(testing::NumParameters(small[0]), ExpectedParameters(kSmall));
  const GptConfig four_layers{.vocabulary = 256, .layers = 4, .width = 128, .heads = 4, .context = 128};
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program, Program(four_layers));
  EXPECT_EQ(testing::NumParameters(program[0]), 875264);
  EXPECT_EQ(ExpectedParameters(four_layers), 875264);
}

TEST(GptTest, NamesItsParametersByTheirPlaceInTheModel) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program, Program(kSmall));
  std::map<std::string, std::string> parameters = testing::Parameters(program[0]);
  EXPECT_EQ(parameters.size(), 2 + 2 * 16 + 2 + 1);
  const std::string residual = nn::Normal(0.02 / std::sqrt(4.0));
  EXPECT_EQ(parameters["wte/weight"], "f32[16,8] normal(0.02)");
  EXPECT_EQ(parameters["wpe/weight"], "f32[6,8] normal(0.02)");
  EXPECT_EQ(parameters["h0/ln1/weight"], "f32[8] ones");
  EXPECT_EQ(parameters["h0/attn/q/weight"], "f32[8,8] normal(0.02) tp:S(1)");
  EXPECT_EQ(parameters["h1/attn/o/weight"], absl::StrCat("f32[8,8] ", residual, " tp:S(0)"));
  EXPECT_EQ(parameters["h1/mlp/up/bias"], "f32[32] zeros tp:S(0)");
  EXPECT_EQ(parameters["h1/mlp/down/weight"], absl::StrCat("f32[32,8] ", residual, " tp:S(0)"));
  EXPECT_EQ(parameters["h1/ln2/bias"], "f32[8] zeros");
  EXPECT_EQ(parameters["ln_f/bias"], "f32[8] zeros");
  EXPECT_EQ(parameters["head/weight"], "f32[8,16] normal(0.02)");  // where it lies is left to the compiler
}

TEST(GptTest, ATiedHeadUsesTheTokenTableTransposed) {
  GptConfig tied = kSmall;
  tied.tied_embedding = true;
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program, Program(tied));
  const Graph& train = program[0];
  EXPECT_EQ(testing::NumParameters(train), ExpectedParameters(tied));
  const NodeId table = train.FindNode("wte/weight");
  const NodeId head = train.FindNode("matmul");
  ASSERT_GE(table, 0);
  ASSERT_GE(head, 0);
  EXPECT_TRUE(train.node(head).attrs.Bool("transpose_b"));
  EXPECT_EQ(train.node(head).inputs[1], train.node(table).outputs[0]);
}

TEST(GptTest, DropsAfterTheEmbeddingAndBothPartsOfABlockOnlyInTraining) {
  GptConfig config = kSmall;
  config.dropout = 0.1;
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program, Program(config));
  EXPECT_EQ(testing::CountOps(program[0], "dropout"), 1 + 2 * 2);
  EXPECT_EQ(testing::CountOps(program[1], "dropout"), 0);
  EXPECT_EQ(testing::CountOps(program[2], "dropout"), 0);
}

TEST(GptTest, DealsSamplesOutAlongTheDataParallelAxis) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program, Program(kSmall));
  for (const Graph* graph : {&program[0], &program[1]}) {
    int hinted = 0;
    for (NodeId id = 0; id < graph->num_nodes(); ++id) {
      if (graph->node(id).op != "to") continue;
      EXPECT_EQ(graph->node(graph->value(graph->node(id).inputs[0]).producer).op, "read_data");
      EXPECT_EQ(ToString(graph->value(graph->node(id).outputs[0]).hint), "dp:S(0),cp:S(1)");
      ++hinted;
    }
    EXPECT_EQ(hinted, 2);
  }
}

TEST(GptTest, TrainsOnOnePartOfTheTextAndEvaluatesOnTheOther) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       GptProgram(kSmall, {"book", 0.25}, {.train = 4, .evaluate = 3}, std::nullopt, Ops()));
  const AttrMap& train = program[0].node(program[0].FindNode("read_data")).attrs;
  const AttrMap& evaluate = program[1].node(program[1].FindNode("read_data")).attrs;
  EXPECT_EQ(train.String("split"), "train");
  EXPECT_EQ(evaluate.String("split"), "validation");
  EXPECT_EQ(train.Int("batch"), 4);
  EXPECT_EQ(evaluate.Int("batch"), 3);
  for (const AttrMap& attrs : {train, evaluate}) {
    EXPECT_EQ(attrs.String("path"), "book");
    EXPECT_EQ(attrs.Double("validation_fraction"), 0.25);
    EXPECT_EQ(attrs.Int("context"), 6);
    EXPECT_EQ(attrs.Int("vocabulary"), 16);
  }
}

TEST(GptTest, GenerationStartsFromTheLastBytesOfThePrompt) {
  struct Case {
    std::string prompt, tokens, length;
  };
  const Case cases[] = {{"\x01\x02", "list(1,2,0,0,0,0)", "list(2)"},
                        {"", "list(10,0,0,0,0,0)", "list(1)"},  // an empty prompt is a newline
                        {"\x01\x02\x03\x04\x05\x06\x07\x08", "list(3,4,5,6,7,8)", "list(6)"}};
  for (const Case& c : cases) {
    ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program, Program(kSmall, {c.prompt, 0.5}));
    const Graph& graph = program[2];
    const Node& tokens = graph.node(graph.FindNode("generate/tokens"));
    EXPECT_EQ(tokens.attrs.String("init"), c.tokens);
    EXPECT_FALSE(tokens.attrs.Bool("trainable"));
    EXPECT_EQ(graph.value(tokens.outputs[0]).type.ToString(), "i32[1,6]");
    const Node& length = graph.node(graph.FindNode("generate/length"));
    EXPECT_EQ(length.attrs.String("init"), c.length);
    EXPECT_FALSE(length.attrs.Bool("trainable"));
    EXPECT_EQ(graph.value(length.outputs[0]).type.ToString(), "i32[]");
    EXPECT_EQ(graph.node(graph.FindNode("sample_token")).attrs.Double("temperature"), 0.5);
    EXPECT_EQ(testing::CountOps(graph, "append_token"), 1);
  }
}

TEST(GptTest, RefusesImpossibleConfigsNamingTheField) {
  struct Case {
    void (*change)(GptConfig&);
    std::string error;
  };
  const Case cases[] = {
      {[](GptConfig& c) { c.vocabulary = 0; }, "gpt: vocabulary is 0, but must be from 1 to"},
      {[](GptConfig& c) { c.layers = -1; }, "gpt: layers is -1"},
      {[](GptConfig& c) { c.width = int64_t{1} << 40; }, "gpt: width is 1099511627776, but must be from 1 to 262144"},
      {[](GptConfig& c) { c.heads = 0; }, "gpt: heads is 0"},
      {[](GptConfig& c) { c.heads = 3; }, "gpt: width 8 is not a multiple of heads 3"},
      {[](GptConfig& c) { c.context = 0; }, "gpt: context is 0"},
      {[](GptConfig& c) { c.dropout = 1; }, "gpt: dropout is 1, but must be from 0 to below 1"},
      {[](GptConfig& c) { c.dropout = std::nan(""); }, "gpt: dropout is nan"},
  };
  for (const Case& c : cases) {
    GptConfig config = kSmall;
    c.change(config);
    EXPECT_THAT(Program(config), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith(c.error)));
  }
  EXPECT_THAT(GptProgram(kSmall, {.path = "text"}, {.train = 0}, std::nullopt, Ops()),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("gpt: the training batch is 0")));
  EXPECT_THAT(GptProgram(kSmall, {"text", 1.5}, {}, std::nullopt, Ops()),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("gpt: validation_fraction is 1.5")));
}

TEST(GptTest, RefusesPromptsOutsideTheVocabularyAndNegativeTemperatures) {
  EXPECT_THAT(
      Program(kSmall, {"\x01Z", 0}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("byte 1 of the prompt is 90, but the vocabulary is 16")));
  EXPECT_THAT(Program(kSmall, {"\n", -0.5}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("temperature is -0.5")));
}

TEST(GptTest, RefusesTokensOfAnotherLengthThanItsPositions) {
  GraphBuilder b(Ops(), "short");
  GptLogits(kSmall, b.Variable("tokens", {DType::kInt32, {1, 5}}, "zeros", {}, false), false);
  EXPECT_THAT(b.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node 'add'")));
}

}  // namespace
}  // namespace oneflow
