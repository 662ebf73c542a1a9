// The gradients of all ops: that they have the types of what they are gradients of, and the graph they are made of.
#include <set>

#include "gmock/gmock.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ragged.h"
#include "test/oneflow_core/ops/infer_cases.h"
#include "test/support/golden.h"
#include "test/support/op_facts.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// `type` is a copy: adding nodes moves the types of the graph.
Tensor ConstantOf(GraphBuilder& b, TensorType type) {
  const Tensor dense = b.Op1(
      "constant", {}, {{"dtype", std::string(Name(type.dtype))}, {"shape", type.shape.dims()}, {"value", int64_t{0}}});
  return type.is_ragged() ? KeepRows(dense, ConstantOf(b, CountsType(type))) : dense;
}

// One op of the table in a graph of its own, with a gradient at its first output.
struct ForwardNode {
  ForwardNode(const OpRegistry& ops, const testing::InferCase& c) : builder(ops, Graph("g")) {
    for (const TensorType& type : c.inputs) inputs.push_back(ConstantOf(builder, type));
    outputs = builder.Op(c.op, inputs, c.attrs);
    id = builder.graph().num_nodes() - 1;
    builder.mutable_graph().node(id).source = "model.cc:7";
    output_grads.resize(c.outputs.size());
  }

  // Must be called once output_grads are set.
  absl::Status Differentiate() {
    first_backward = builder.graph().num_nodes();
    context.emplace(builder, id, output_grads);
    return builder.ops().Find(builder.graph().node(id).op)->grad(*context);
  }

  GraphEditor builder;
  std::vector<Tensor> inputs, outputs;
  NodeId id = -1;
  std::vector<std::optional<Tensor>> output_grads;
  NodeId first_backward = -1;
  std::optional<GradContext> context;
};

std::string ToString(const Attr& attr) {
  if (const auto* b = std::get_if<bool>(&attr)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&attr)) return absl::StrCat(*i);
  if (const auto* d = std::get_if<double>(&attr)) return absl::StrCat(*d);
  if (const auto* s = std::get_if<std::string>(&attr)) return *s;
  return Shape(std::get<std::vector<int64_t>>(attr)).ToString();
}

// "  t0 = mul(dy0 x1)" per backward node, then "  dx0 = t0" per gradient.
std::string Describe(const ForwardNode& f) {
  const Graph& graph = f.builder.graph();
  std::map<ValueId, std::string> names;
  for (size_t i = 0; i < f.inputs.size(); ++i) names[f.inputs[i].id()] = absl::StrCat("x", i);
  for (size_t i = 0; i < f.outputs.size(); ++i) names[f.outputs[i].id()] = absl::StrCat("y", i);
  for (size_t i = 0; i < f.output_grads.size(); ++i) {
    if (f.output_grads[i].has_value()) names[f.output_grads[i]->id()] = absl::StrCat("dy", i);
  }
  std::string text;
  int temporaries = 0;
  for (NodeId id = f.first_backward; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    std::string line = "  ";
    for (ValueId output : node.outputs) {
      names[output] = absl::StrCat("t", temporaries++);
      absl::StrAppend(&line, names[output], " ");
    }
    absl::StrAppend(&line, "= ", node.op, "(");
    for (ValueId input : node.inputs) absl::StrAppend(&line, input == node.inputs[0] ? "" : " ", names[input]);
    line += ")";
    for (const auto& [name, value] : node.attrs.items()) absl::StrAppend(&line, " ", name, "=", ToString(value));
    absl::StrAppend(&text, line, "\n");
  }
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    const std::optional<Tensor>& grad = f.context->input_grads()[i];
    if (grad.has_value()) absl::StrAppend(&text, "  dx", i, " = ", names[grad->id()], "\n");
  }
  return text;
}

TEST(GradientsTest, HaveTheShapesOfTheInputsAndAreMadeOfTheNodesOfTheGolden) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const std::vector<testing::InferCase> cases, testing::InferCases());
  std::string text;
  std::set<std::string> seen;
  for (const testing::InferCase& c : cases) {
    if (!c.error.empty() || ops.Find(c.op)->grad == nullptr || !IsFloating(c.outputs[0].dtype)) continue;
    SCOPED_TRACE(c.line);
    seen.insert(c.op);
    ForwardNode f(ops, c);
    f.output_grads[0] = ConstantOf(f.builder, f.outputs[0].type());
    ASSERT_OK(f.Differentiate());
    ASSERT_OK(f.builder.status());
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const std::optional<Tensor>& grad = f.context->input_grads()[i];
      const bool differentiable = IsFloating(c.inputs[i].dtype);
      EXPECT_TRUE(grad.has_value() || !differentiable) << "input " << i;
      if (!grad.has_value()) continue;
      ASSERT_TRUE(grad->valid()) << "input " << i;
      EXPECT_EQ(grad->shape(), c.inputs[i].shape) << "input " << i;
      EXPECT_TRUE(IsFloating(grad->type().dtype)) << "input " << i;  // a sum of narrow numbers is not rounded
    }
    const Graph& graph = f.builder.graph();
    for (NodeId id = f.first_backward; id < graph.num_nodes(); ++id) {
      EXPECT_TRUE(IsBackward(graph.node(id)));
      EXPECT_EQ(graph.node(id).source, "model.cc:7");
      EXPECT_THAT(graph.node(id).name, HasSubstr(c.op + "/"));
    }
    absl::StrAppend(&text, c.line, "\n", Describe(f));
  }
  for (const auto& [name, def] : ops.all()) EXPECT_EQ(seen.count(name), def.grad == nullptr ? 0 : 1) << name;
  EXPECT_GOLDEN("ops/gradients.txt", text);
}

// An op that is not listed was forgotten, not found to be without one.
TEST(GradientsTest, ExistForAllOpsButThoseThatAreListedWithAReason) {
  std::set<std::string> expected;
  for (const testing::OpFacts& facts : testing::AllOpFacts()) {
    for (const auto& [op, reason] : facts.without_gradient) expected.insert(op);
  }
  std::set<std::string> without;
  const OpRegistry ops = StandardOps();  // named: a temporary would not live as long as the loop
  for (const auto& [name, def] : ops.all()) {
    if (def.grad == nullptr) without.insert(name);
  }
  EXPECT_EQ(without, expected);
}

TEST(GradientsTest, AreLeftOutWhereNobodyNeedsThem) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const std::vector<testing::InferCase> cases, testing::InferCases());
  for (const testing::InferCase& c : cases) {
    if (!c.error.empty() || (c.op != "matmul" && c.op != "batch_matmul" && c.op != "conv2d")) continue;
    for (int needed : {0, 1}) {
      ForwardNode f(ops, c);
      const Tensor dy = ConstantOf(f.builder, f.outputs[0].type());
      const int nodes = f.builder.graph().num_nodes();
      GradContext context(f.builder, f.id, {dy});
      context.set_needs_grad(1 - needed, false);
      ASSERT_OK(ops.Find(c.op)->grad(context));
      const int casts = dy.type().dtype == c.inputs[0].dtype ? 0 : 1;  // of dy, to what is multiplied
      EXPECT_EQ(f.builder.graph().num_nodes(), nodes + casts + 1) << c.line;
      EXPECT_TRUE(context.input_grads()[needed].has_value()) << c.line;
      EXPECT_FALSE(context.input_grads()[1 - needed].has_value()) << c.line;
    }
  }
}

// A dropout draws by its key, which is its name unless the user gave one; the gradient must draw the same.
TEST(GradientsTest, OfADropoutDrawsWithTheForwardNodesKey) {
  const OpRegistry ops = StandardOps();
  const std::pair<std::optional<Attr>, std::string> cases[] = {
      {std::nullopt, "h0/dropout"},
      {std::string("mine"), "mine"},
      {int64_t{42}, "h0/dropout"},  // no string: the compiler replaces it
  };
  for (const auto& [key, expected] : cases) {
    GraphEditor b(ops, Graph("g"));
    const GraphBuilder::Scope scope(b, "h0");
    AttrMap attrs = {{"rate", 0.25}};
    if (key.has_value()) attrs.Set("key", *key);
    const Tensor x = ConstantOf(b, {DType::kFloat32, {4}});
    const Tensor y = b.Op1("dropout", {x}, attrs);
    GradContext context(b, b.graph().value(y.id()).producer, {x});
    ASSERT_OK(ops.Find("dropout")->grad(context));
    const Node& node = b.graph().node(b.graph().value(context.input_grads()[0]->id()).producer);
    EXPECT_EQ(node.attrs.String("key"), expected);
    EXPECT_EQ(node.attrs.Double("rate"), 0.25);
  }
}

TEST(GradientsTest, OfAnAttentionFlowThroughItsLseToo) {
  const OpRegistry ops = StandardOps();
  for (const bool through_out : {false, true}) {
    GraphEditor b(ops, Graph("g"));
    const Tensor q = ConstantOf(b, {DType::kFloat32, {2, 3, 4}});
    const Attended y = AttentionWithLse(q, q, q, {.heads = 2, .dropout = 0.5});
    std::vector<std::optional<Tensor>> dys(2);
    if (through_out) dys[0] = q;
    dys[1] = ConstantOf(b, y.lse.type());
    GradContext context(b, b.graph().value(y.out.id()).producer, dys);
    ASSERT_OK(ops.Find("attention")->grad(context));
    ASSERT_OK(b.status());
    const Node& node = b.graph().node(b.graph().value(context.input_grads()[0]->id()).producer);
    ASSERT_EQ(node.inputs.size(), 7);
    EXPECT_EQ(node.inputs[6], dys[1]->id());
    EXPECT_EQ(node.attrs.String("key"), "attention");  // draws what the forward node does
    EXPECT_EQ(node.inputs[0] == q.id(), through_out);
    if (through_out) continue;
    EXPECT_EQ(b.graph().node(b.graph().value(node.inputs[0]).producer).attrs.Double("value"), 0);
  }
}

TEST(GradientsTest, OfStatisticsAreUnimplemented) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const std::vector<testing::InferCase> cases, testing::InferCases());
  const std::map<std::string, std::string> messages = {
      {"layer_norm", "no gradient flows through the mean and rstd of a layer_norm"},
      {"rms_norm", "no gradient flows through the rstd of an rms_norm"},
      {"softmax_cross_entropy", "no gradient flows through the lse of a softmax_cross_entropy"}};
  int seen = 0;
  for (const testing::InferCase& c : cases) {
    if (!c.error.empty() || messages.count(c.op) == 0) continue;
    ForwardNode f(ops, c);
    f.output_grads[1] = ConstantOf(f.builder, f.outputs[1].type());
    EXPECT_THAT(f.Differentiate(), testing::StatusIs(absl::StatusCode::kUnimplemented, messages.at(c.op))) << c.line;
    ++seen;
  }
  EXPECT_GE(seen, 3);
}

// What flows through mean and var is in dx: gradients for them would count it twice.
TEST(GradientsTest, OfABatchNormInTrainingLeaveItsStatisticsAlone) {
  const OpRegistry ops = StandardOps();
  GraphEditor b(ops, Graph("g"));
  const Tensor x = ConstantOf(b, {DType::kFloat32, {4, 3, 2}}), gamma = ConstantOf(b, {DType::kFloat32, {3}});
  const Tensor y = BatchNorm(x, gamma, gamma, 1e-3).y;
  const int nodes = b.graph().num_nodes();
  GradContext context(b, b.graph().value(y.id()).producer, {x});
  ASSERT_OK(ops.Find("batch_norm")->grad(context));
  ASSERT_OK(b.status());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(context.input_grads()[i].has_value(), i < 3) << "input " << i;
  ASSERT_EQ(b.graph().num_nodes(), nodes + 2);
  EXPECT_EQ(b.graph().node(nodes).op, "batch_norm_sums");
  EXPECT_EQ(b.graph().node(nodes + 1).op, "batch_norm_dx");
  EXPECT_EQ(b.graph().node(nodes + 1).attrs, (AttrMap{{"epsilon", 1e-3}}));
}

}  // namespace
}  // namespace oneflow
