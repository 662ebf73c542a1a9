#include "oneflow_core/graph_text.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "oneflow_core/graph_editor.h"
#include "oneflow_core/models/convnet.h"
#include "oneflow_core/models/gpt.h"
#include "oneflow_core/models/mlp.h"
#include "oneflow_core/verify.h"
#include "test/support/golden.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

void ExpectSame(const Value& a, const Value& b) {
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.producer, b.producer);
  EXPECT_EQ(a.output, b.output);
  EXPECT_EQ(a.hint, b.hint);
  EXPECT_EQ(a.dist, b.dist);
  EXPECT_EQ(a.layout, b.layout);
}

void ExpectSame(const Node& a, const Node& b) {
  SCOPED_TRACE(Where(a));
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.attrs, b.attrs);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.outputs, b.outputs);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.at, b.at);
  EXPECT_EQ(a.precision, b.precision);
  EXPECT_EQ(a.role, b.role);
  EXPECT_EQ(a.forward, b.forward);
  EXPECT_EQ(a.variable, b.variable);
  EXPECT_EQ(a.chunk, b.chunk);
  EXPECT_EQ(a.rate, b.rate);
  EXPECT_EQ(a.placement, b.placement);
}

void ExpectSame(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.name(), b.name());
  EXPECT_EQ(a.losses, b.losses);
  ASSERT_EQ(a.num_nodes(), b.num_nodes());
  ASSERT_EQ(a.num_values(), b.num_values());
  for (NodeId id = 0; id < a.num_nodes(); ++id) ExpectSame(a.node(id), b.node(id));
  for (ValueId id = 0; id < a.num_values(); ++id) ExpectSame(a.value(id), b.value(id));
}

void ExpectRoundTrip(const Graph& graph) {
  const std::string text = GraphToText(graph);
  ASSERT_OK_AND_ASSIGN(const Graph read, GraphFromText(text, Ops()));
  ExpectSame(graph, read);
  EXPECT_EQ(GraphToText(read), text);
}

// Three nodes; the second carries everything that a user or the compiler can say about a node.
Graph FullyMarkedGraph() {
  GraphEditor b(Ops(), Graph("all \"marks\"\n"));
  b.set_source("example.cc:1");
  const Tensor x = b.Op1("constant", {},
                         {{"dtype", std::string("f32")}, {"shape", std::vector<int64_t>{4, 16, 2, 6}}, {"value", 0.1}});
  const Tensor y = b.Op1("relu", {x}, {}, std::source_location::current(), "α/\"β\"");
  const Tensor w = b.Variable("w", {DType::kFloat32, {}}, "zeros");  // what a node serves may come after it
  Graph graph = *b.Finish();
  const Placement stage({{"dp", 2}, {"tp", 2}}, {4, 5, 6, 7});
  Node& node = graph.node(1);
  node.attrs = {{"yes", true},
                {"no", false},
                {"int", int64_t{-7}},
                {"largest", std::numeric_limits<int64_t>::max()},
                {"smallest", std::numeric_limits<int64_t>::min()},
                {"third", 1.0 / 3},
                {"whole", 3.0},
                {"negative_zero", -0.0},
                {"denormal", std::numeric_limits<double>::denorm_min()},
                {"huge", std::numeric_limits<double>::max()},
                {"infinite", -std::numeric_limits<double>::infinity()},
                {"text", std::string("a \"b\"\\\n\t\0\xff} = %0", 16)},
                {"empty_text", std::string()},
                {"list", std::vector<int64_t>{1, -2, 3}},
                {"empty_list", std::vector<int64_t>{}}};
  node.at = {{"pp", 1}, {"dp", 0}};
  node.role = Role::kWeightGradient;
  graph.segments = {{"layers"}, {"attention", 0}};
  node.segment = 1;
  node.after = {x.id(), x.id()};
  node.after_last = {y.id(), w.id()};
  node.unit = 7;
  node.forward = graph.value(x.id()).producer;
  node.variable = graph.value(w.id()).producer;
  node.chunk = 3;
  node.precision = DType::kFloat16;
  node.rate = Rate::kStep;
  node.placement = stage;
  graph.value(y.id()).hint = {{"dp", Sbp::Split(0)}, {"tp", Sbp::Partial(Reduction::kMax)}};
  graph.value(y.id()).layout = MemoryLayout::kChannelBlocks;
  graph.value(y.id()).dist = DistType{stage, {Sbp::Split(1), Sbp::Partial()}};
  return graph;
}

TEST(GraphTextTest, KeepsEverythingThatAGraphSays) {
  const Graph graph = FullyMarkedGraph();
  EXPECT_OK(VerifyGraph(graph, Ops()));
  ExpectRoundTrip(graph);
}

TEST(GraphTextTest, KeepsTheSignOfZeroAndReadsNan) {
  const Graph graph = FullyMarkedGraph();
  ASSERT_OK_AND_ASSIGN(const Graph read, GraphFromText(GraphToText(graph), Ops()));
  EXPECT_TRUE(std::signbit(read.node(1).attrs.Double("negative_zero")));  // == does not tell
  ASSERT_OK_AND_ASSIGN(const Graph nan,
                       GraphFromText("graph \"g\"\n%0:f32[] = constant() \"c\" {dtype=\"f32\", odd=nan, "
                                     "shape=[], value=1}",
                                     Ops()));
  EXPECT_TRUE(std::isnan(nan.node(0).attrs.Double("odd")));
}

TEST(GraphTextTest, EveryDoubleReadsBackToTheSameBits) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  Graph graph = FullyMarkedGraph();
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isnan(value)) continue;
    graph.node(1).attrs.Set(absl::StrCat("a", i), value);
  }
  ASSERT_OK_AND_ASSIGN(const Graph read, GraphFromText(GraphToText(graph), Ops()));
  EXPECT_EQ(read.node(1).attrs, graph.node(1).attrs);
}

TEST(GraphTextTest, ReadsAsInTheGoldenText) {
  GraphEditor b(Ops(), Graph("train"));
  b.set_source("classifier.cc:7");
  const std::vector<Tensor> data = b.Op("read_data", {},
                                        {{"dataset", std::string("images")},
                                         {"batch", int64_t{8}},
                                         {"channels", int64_t{1}},
                                         {"height", int64_t{2}},
                                         {"width", int64_t{2}}},
                                        std::source_location::current(), "data");
  b.set_source("classifier.cc:8");
  const Tensor images = data[0].To({{"dp", Sbp::Split(0)}});
  const Tensor x = b.Op1("reshape", {images}, {{"shape", std::vector<int64_t>{8, 4}}});
  Tensor logits;
  {
    const GraphBuilder::Scope scope(b, "head");
    const GraphBuilder::PlacementScope last_stage(b, {{"pp", 1}});
    b.set_source("classifier.cc:9");
    const Tensor w = b.Variable("weight", {DType::kFloat32, {4, 3}}, "normal(0.02)", {{"tp", Sbp::Split(1)}});
    logits = b.Op1("matmul", {x, w}, {{"transpose_b", false}});
  }
  b.set_source("classifier.cc:11");
  const Tensor losses = b.Op("softmax_cross_entropy", {logits, data[1]})[0];
  const Tensor loss = b.Op1("reduce_mean", {losses}, {{"axes", std::vector<int64_t>{0}}});
  b.SetLoss(loss);
  b.Op("fetch", {loss}, {{"name", std::string("loss")}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, b.Finish());
  ExpectRoundTrip(graph);
  EXPECT_GOLDEN("oneflow_core/classifier.graph", GraphToText(graph));
}

TEST(GraphTextTest, EveryModelGraphReadsBackTheSame) {
  const BatchSizes batches{.train = 4, .evaluate = 6};
  const ImageData images{"a", "b", "c", "d"};
  std::vector<std::vector<Graph>> programs;
  const GptConfig small{.vocabulary = 16, .layers = 2, .width = 8, .heads = 2, .context = 5, .dropout = 0.1};
  GptConfig tied = small;
  tied.tied_embedding = true;
  for (const GptConfig& config : {small, tied}) {
    ASSERT_OK_AND_ASSIGN(programs.emplace_back(),
                         GptProgram(config, {.path = "t"}, batches, Continuation{"\n\t", 0.8}, Ops()));
  }
  ASSERT_OK_AND_ASSIGN(programs.emplace_back(), ConvNetProgram({.dropout = 0.25}, images, batches, Ops()));
  ASSERT_OK_AND_ASSIGN(programs.emplace_back(), MlpProgram({}, images, batches, Ops()));
  int graphs = 0;
  for (const std::vector<Graph>& program : programs) {
    for (const Graph& graph : program) {
      SCOPED_TRACE(graph.name());
      EXPECT_OK(VerifyGraph(graph, Ops()));
      ExpectRoundTrip(graph);
      ++graphs;
    }
  }
  EXPECT_EQ(graphs, 10);
}

TEST(GraphTextTest, SkipsCommentsEmptyLinesAndSpaces) {
  ASSERT_OK_AND_ASSIGN(const Graph graph,
                       GraphFromText("# made by hand\r\n\n  graph   \"g\" \r\n\t# x\n"
                                     "%0 : f32[]=constant( )\"c\"{ shape=[ ] ,value = 1,dtype=\"f32\"}\r\n"
                                     "  loss %0",
                                     Ops()));
  EXPECT_EQ(graph.num_nodes(), 1);
  EXPECT_THAT(graph.losses, ElementsAre(0));
}

namespace mistakes {

struct Case {
  std::string text;  // after the line of the graph and the line of %0
  std::string error;
};
const Case kCases[] = {
    {"%1:f32[2,3] = rellu(%0) \"r\"", "line 3: no op 'rellu'"},
    {"%1:f32[2,3] = (%0) \"r\"", "line 3: expected an op but found '(%0) "},
    {"%2:f32[2,3] = relu(%0) \"r\"", "line 3: defines %2, but the next value is %1"},
    {"%1:f32[2,3] = relu(%1) \"r\"", "line 3: reads %1, but only 1 values are defined before this line"},
    {"%1:f32[2,3] = relu(%99999999999) \"r\"", "line 3: expected a value such as %0 but found '%99999999999"},
    {"%1:f32[2,3] = relu(%-1) \"r\"", "line 3: expected a value such as %0 but found '%-1"},
    {"%1:f32[2,3] = relu(0) \"r\"", "line 3: expected a value such as %0 but found '0) "},
    {"%1:f32[2,3] = relu(%0 \"r\"", "line 3: expected ')' after the inputs but found '\"r\"'"},
    {"%1:f32[2,3] = relu %0 \"r\"", "line 3: expected '(' after the op but found '%0 "},
    {"%1:f32[2,3] relu(%0) \"r\"", "line 3: expected '=' after the outputs but found 'relu"},
    {"%1 = relu(%0) \"r\"", "line 3: expected ':' after %1 but found '= relu"},
    {"%1:f32 = relu(%0) \"r\"", "line 3: expected a type such as f32[2,3] but found 'f32 = relu"},
    {"%1:f99[2,3] = relu(%0) \"r\"", "type 'f99[2,3]' does not begin with a dtype"},
    {"%1:f32[2,-3] = relu(%0) \"r\"", "'-3' is not a size >= 0"},
    {"%1:f32[4294967296,4294967296] = relu(%0) \"r\"", "more than 2^58 elements"},
    {"%1:f32[3,2] = relu(%0) \"r\"", "declared as (f32[3,2]), but on (f32[2,3]) the op gives (f32[2,3])"},
    {"%1:i32[2,3] = relu(%0) \"r\"", "declared as (i32[2,3]), but on (f32[2,3]) the op gives (f32[2,3])"},
    {"%1:f32[2,3], %2:f32[] = relu(%0) \"r\"", "declared as (f32[2,3], f32[]), but on (f32[2,3]) the op gives"},
    {"relu(%0) \"r\"", "declared as (), but on (f32[2,3]) the op gives (f32[2,3])"},
    {"%1:f32[2,3] = relu(%0, %0) \"r\"", "line 3: node 'r' (relu)"},
    {"%1:f32[2,3] = relu(%0)", "line 3: expected the node's name in quotes but the line ends"},
    {"%1:f32[2,3] = relu(%0) r", "line 3: expected the node's name in quotes but found 'r'"},
    {"%1:f32[2,3] = relu(%0) \"r", "line 3: expected the node's name in quotes that ends with '\"' but found '\"r'"},
    {"%1:f32[2,3] = relu(%0) \"r\\\"", "line 3: expected the node's name in quotes that ends with '\"'"},
    {"%1:f32[2,3] = relu(%0) \"\\q\"", "line 3: expected the node's name in quotes ("},
    {"%1:f32[2,3] = relu(%0) \"\"", "line 3: node '' (relu): node 1 has no name"},
    {"%1:f32[2,3] = relu(%0) \"c\"", "line 3: the name 'c' is already taken on line 2"},
    {"%1:f32[2,3] = relu(%0) \"r\" {a=}", "line 3: attribute 'a': expected true, false, a number"},
    {"%1:f32[2,3] = relu(%0) \"r\" {a=9223372036854775808}", "attribute 'a': expected true, false, a number in range"},
    {"%1:f32[2,3] = relu(%0) \"r\" {a=1e999}", "attribute 'a': expected true, false, a number in range"},
    {"%1:f32[2,3] = relu(%0) \"r\" {a=1.5x}", "attribute 'a': expected true, false, a number in range"},
    {"%1:f32[2,3] = relu(%0) \"r\" {a=truex}", "attribute 'a': expected true, false, a number in range"},
    {"%1:f32[2,3] = relu(%0) \"r\" {a=[1,2.5]}", "attribute 'a': expected an integer in the list but found '2.5]"},
    {"%1:f32[2,3] = relu(%0) \"r\" {a=[1,2}", "attribute 'a': expected ']' after the list but found '}'"},
    {"%1:f32[2,3] = relu(%0) \"r\" {a=1, a=2}", "line 3: attribute 'a' is given twice"},
    {"%1:f32[2,3] = relu(%0) \"r\" {a 1}", "line 3: expected '=' after attribute 'a' but found '1}'"},
    {"%1:f32[2,3] = relu(%0) \"r\" {1=1}", "line 3: expected the name of an attribute but found '1=1}'"},
    {"%1:f32[2,3] = relu(%0) \"r\" {a=1", "line 3: expected '}' after the attributes but the line ends"},
    {"%1:f32[2,3]{dp} = relu(%0) \"r\"", "SBP hint 'dp'"},
    {"%1:f32[2,3]{dp:S(x)} = relu(%0) \"r\"", "'S(x)' is not an SBP"},
    {"%1:f32[2,3]{dp:B,dp:B} = relu(%0) \"r\"", "names axis 'dp' twice"},
    {"%1:f32[2,3]{d-p:B} = relu(%0) \"r\"", "axis 'd-p' is not a word"},
    {"%1:f32[2,3]{dp:S(2)} = relu(%0) \"r\"", "S(2) splits a dimension that f32[2,3] does not have"},
    {"%1:f32[2,3]{dp:B = relu(%0) \"r\"", "line 3: expected a hint such as {dp:S(0)} but found '{dp:B = "},
    {"%1:f32[2,3]@[dp=2]{0}(B) = relu(%0) \"r\"", "the axes make 2 ranks, but 1 are listed"},
    {"%1:f32[2,3]@[dp=2]{0,1}(B,B) = relu(%0) \"r\"", "2 SBPs for 1 axes"},
    {"%1:f32[2,3]@[dp=2]{0,1}(S(2)) = relu(%0) \"r\"", "S(2) splits a dimension that f32[2,3] does not have"},
    {"%1:f32[2,3]@[dp=2]{0,1} = relu(%0) \"r\"", "line 3: expected an SBP such as (S(0),B) but found '= relu"},
    {"%1:f32[2,3] = relu(%0) \"r\" at pp", "line 3: expected '=' after axis 'pp' but the line ends"},
    {"%1:f32[2,3] = relu(%0) \"r\" at pp=x", "line 3: expected a coordinate on the axis but found 'x'"},
    {"%1:f32[2,3] = relu(%0) \"r\" at pp=-1", "placement hint pp=-1 is negative"},
    {"%1:f32[2,3] = relu(%0) \"r\" at pp=1,pp=0", "axis 'pp' is named twice"},
    {"%1:f32[2,3] = relu(%0) \"r\" role sideways",
     "line 3: expected one of the roles forward, input-gradient, weight-gradient, fused-gradient, reduction, "
     "recompute, update but found 'sideways'"},
    {"%1:f32[2,3] = relu(%0) \"r\" role update forward c",
     "line 3: expected the name of a forward node in quotes but found 'c'"},
    {"%1:f32[2,3] = relu(%0) \"r\" role update forward \"x\"", "line 3: serves 'x', but there is no node of that name"},
    {"%1:f32[2,3] = relu(%0) \"r\" role update forward \"r\"",
     "serves node 'r' (relu) as a forward node, whose role is update"},
    {"%1:f32[2,3] = relu(%0) \"r\" variable \"c\"", "serves node 'c' (constant) as a variable, which it is not"},
    {"%1:f32[2,3] = relu(%0) \"r\" in i32", "line 3: expected f32, bf16 or f16 but found 'i32'"},
    {"%1:f32[2,3] = relu(%0) \"r\" segment x", "line 3: expected the number of a segment but found 'x'"},
    {"%1:f32[2,3] = relu(%0) \"r\" segment 1", "line 3: node 'r' (relu): is in segment 1, but the graph has 0"},
    {"%1:f32[2,3] = relu(%0) \"r\" after 0", "line 3: expected a value such as %0 but found '0'"},
    {"%1:f32[2,3] = relu(%0) \"r\" after %1", "line 3: node 'r' (relu): runs after %1, which no node before node 1"},
    {"segment 0 \"layers\"", "line 3: expected segments before the first node"},
    {"%1:f32[2,3] = relu(%0) \"r\" chunk x", "line 3: expected the number of a chunk but found 'x'"},
    {"%1:f32[2,3] = relu(%0) \"r\" chunk -2", "its chunk is -2"},
    {"%1:f32[2,3] = relu(%0) \"r\" unit -2", "its unit is -2"},
    {"%1:f32[2,3] = relu(%0) \"r\" after_last %7",
     "runs after %7 of the micro-batch before, but the graph has 2 values"},
    {"%1:f32[2,3] = relu(%0) \"r\" rate daily", "line 3: expected rate micro-batch or step but found 'daily'"},
    {"%1:f32[2,3] = relu(%0) \"r\" on cpu", "line 3: expected a placement such as [dp=2]{0,1} but found 'cpu'"},
    {"%1:f32[2,3] = relu(%0) \"r\" on [dp=2]{0,0}", "a rank is listed twice"},
    {"%1:f32[2,3] = relu(%0) \"r\" from a.cc:1", "line 3: expected a source line in quotes but found 'a.cc:1'"},
    {"%1:f32[2,3] = relu(%0) \"r\" rate step at pp=1",
     "line 3: expected 'at', 'in', 'segment', 'role', 'forward', 'variable', 'chunk', 'unit', 'rate', 'on', 'after', "
     "'after_last', 'from' (in this order)"},
    {"increment(%0) \"i\"", "line 3: node 'i' (increment)"},
    {"%1:i64[] = constant() \"k\" {dtype=\"i64\", shape=[], value=1}\nincrement(%1) \"i\"",
     "line 4: node 'i' (increment): overwrites input 0, which is no variable but comes from node 'k' (constant)"},
    {"loss", "line 3: expected a value such as %0 but the line ends"},
    {"loss %5", "line 3: the loss is %5, but the graph has 1 values"},
    {"loss %0", "line 3: the loss must be f32[] but is %0, f32[2,3] of node 'c' (constant)"},
    {"loss %0 %0", "line 3: expected the end of the line after the loss but found '%0'"},
    {"%1:f32[] = constant() \"l\" {dtype=\"f32\", shape=[], value=1}\nloss %1\nloss %1\n%2",
     "line 6: expected nothing but losses after a loss but found '%2'"},
    {std::string("%1\0:f32[]", 9), "line 3: expected ':' after %1 but found '\\x00:f32[]'"},
};

}  // namespace mistakes

TEST(GraphTextTest, NamesLineAndBothValuesOfEachMistake) {
  const std::string kConstant = "%0:f32[2,3] = constant() \"c\" {dtype=\"f32\", shape=[2,3], value=1.0}\n";
  for (const auto& c : mistakes::kCases) {
    SCOPED_TRACE(c.text);
    EXPECT_THAT(
        GraphFromText("graph \"g\"\n" + kConstant + c.text, Ops()),
        StatusIs(absl::StatusCode::kInvalidArgument, AllOf(StartsWith("graph text, line "), HasSubstr(c.error))));
  }
}

TEST(GraphTextTest, NamesLineAndBothValuesOfEachMistakeInASegment) {
  const std::pair<const char*, const char*> kCases[] = {
      {"segment x \"layers\"", "line 2: expected the number of the segment but found 'x"},
      {"segment 1 \"layers\"", "line 2: defines segment 1, but the next one is 0"},
      {"segment 0 layers", "line 2: expected the segment's kind in quotes but found 'layers'"},
      {"segment 0 \"a b\"", "line 2: segment 0: kind 'a b' is not a word"},
      {"segment 0 \"layers\" in 0", "line 2: segment 0 lies in segment 0, which does not come before it"},
      {"segment 0 \"layers\" in -1", "line 2: lies in segment -1"},
      {"segment 0 \"layers\" of", "line 2: expected 'in' or the end of the line after the segment but found 'of'"},
  };
  for (const auto& [text, error] : kCases) {
    EXPECT_THAT(GraphFromText(absl::StrCat("graph \"g\"\n", text), Ops()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(error)))
        << text;
  }
}

TEST(GraphTextTest, WantsAGraphLineFirst) {
  for (const std::string text : {"", "# nothing\n", "graf \"g\"", "graph g", "graph \"g\" x", "graph", "loss %0",
                                 "%0:f32[] = constant() \"c\""}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(GraphFromText(text, Ops()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(" expected ")));
  }
}

TEST(GraphTextTest, SurvivesDamagedTexts) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::string good = GraphToText(FullyMarkedGraph());
  const std::string alphabet = "{}[]()=:,@%\"\\ \n-.019aeinpSBf";
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < edits; ++i) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), 1 + random() % 8));
      }
      if (text.empty()) text = "g";
    }
    const absl::StatusOr<Graph> graph = GraphFromText(text, Ops());
    if (!graph.ok()) {
      ASSERT_THAT(graph, StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("graph text, line "))) << text;
      continue;
    }
    ++accepted;  // a harmless change, such as another name: still a graph
    ASSERT_OK(VerifyGraph(*graph, Ops())) << text;
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace oneflow
