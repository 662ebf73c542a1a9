// Every gradient formula against numbers: the graph that an op's `grad` writes, interpreted by the reference in double, must agree with
// central differences of the op itself.
//
//   L(x) = sum over outputs of <dy, op(x)>        dL/dx_i ~ (L(x + h e_i) - L(x - h e_i)) / 2h
#include <cmath>
#include <map>
#include <set>

#include "oneflow_core/builder.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/ops.h"
#include "test/kernels/cases.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kSeed = 7;
using Ints = std::vector<int64_t>;

struct GradientCase {
  std::string op;
  AttrMap attrs;
  std::vector<RefTensor> inputs;
};

std::vector<GradientCase> GradientCases() {
  Random r(kSeed);
  std::vector<GradientCase> cases;
  for (const char* op : {"neg", "exp", "square", "tanh", "sigmoid", "relu", "gelu", "to"}) {
    cases.push_back({op, {}, {r.Uniform({3, 4})}});
  }
  for (const char* op : {"log", "sqrt", "rsqrt"}) cases.push_back({op, {}, {r.Uniform({3, 4}, 0.5, 3)}});
  cases.push_back({"scale", {{"alpha", -1.5}}, {r.Uniform({5})}});
  cases.push_back({"add_scalar", {{"alpha", -1.5}}, {r.Uniform({5})}});
  for (const char* op : {"add", "sub", "mul", "div", "maximum", "minimum"}) {
    for (const auto& [a, b] :
         std::vector<std::pair<Ints, Ints>>{{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {4, 1, 3}}, {{}, {2}}}) {
      cases.push_back({op, {}, {r.Uniform(a), r.Uniform(b, 0.5, 2)}});
    }
  }
  cases.push_back({"add_n", {}, {r.Uniform({4}), r.Uniform({4}), r.Uniform({4})}});
  cases.push_back({"cast", {{"dtype", std::string("f32")}}, {r.Uniform({4})}});
  for (const auto& [dims, axis] : std::vector<std::pair<Ints, int64_t>>{{{2, 3}, -1}, {{2, 3, 2, 2}, 1}}) {
    cases.push_back({"bias_add", {{"axis", axis}}, {r.Uniform(dims), r.Uniform({3})}});
  }
  cases.push_back({"dropout", {{"rate", 0.4}, {"seed", int64_t{1}}, {"key", std::string("k")}}, {r.Uniform({20})}});
  for (const Ints& axes : {Ints{0}, Ints{1}, Ints{0, 2}, Ints{0, 1, 2}, Ints{}}) {
    for (const bool keepdims : {false, true}) {
      for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}) {
        cases.push_back({op, {{"axes", axes}, {"keepdims", keepdims}}, {r.Uniform({2, 3, 2})}});
      }
    }
  }
  cases.push_back({"sum_to", {{"shape", Ints{3, 1}}}, {r.Uniform({2, 3, 4})}});
  cases.push_back({"broadcast_to", {{"shape", Ints{2, 3, 4}}}, {r.Uniform({3, 1})}});
  cases.push_back({"square_sum", {}, {r.Uniform({2, 3})}});
  cases.push_back({"reshape", {{"shape", Ints{3, 4}}}, {r.Uniform({2, 6})}});
  cases.push_back({"transpose", {{"perm", Ints{2, 0, 1}}}, {r.Uniform({2, 3, 4})}});
  cases.push_back({"slice", {{"axis", int64_t{1}}, {"start", int64_t{1}}, {"size", int64_t{2}}}, {r.Uniform({2, 5})}});
  cases.push_back(
      {"slice_grad", {{"axis", int64_t{1}}, {"start", int64_t{1}}, {"size", int64_t{5}}}, {r.Uniform({2, 2})}});
  cases.push_back({"concat", {{"axis", int64_t{1}}}, {r.Uniform({2, 3}), r.Uniform({2, 1}), r.Uniform({2, 2})}});
  for (const bool t : {false, true}) {
    cases.push_back({"matmul", {{"transpose_b", t}}, {r.Uniform({2, 3, 4}), r.Uniform(t ? Ints{5, 4} : Ints{4, 5})}});
    for (const bool ta : {false, true}) {
      cases.push_back({"batch_matmul",
                       {{"transpose_a", ta}, {"transpose_b", t}},
                       {r.Uniform(ta ? Ints{2, 3, 4} : Ints{2, 4, 3}), r.Uniform(t ? Ints{2, 5, 3} : Ints{2, 3, 5})}});
    }
    cases.push_back({"attention",
                     {{"heads", int64_t{2}}, {"causal", t}},
                     {r.Uniform({2, 4, 6}), r.Uniform({2, 4, 6}), r.Uniform({2, 4, 6})}});
  }
  cases.push_back({"pad", {{"before", Ints{0, 2, 1}}, {"after", Ints{0, 0, 3}}}, {r.Uniform({2, 3, 2})}});
  for (const bool reverse : {false, true}) {
    for (const bool exclusive : {false, true}) {
      cases.push_back(
          {"cumsum", {{"axis", int64_t{1}}, {"reverse", reverse}, {"exclusive", exclusive}}, {r.Uniform({2, 4, 3})}});
    }
  }
  cases.push_back({"rms_norm", {{"epsilon", 1e-3}}, {r.Uniform({2, 3, 5}), r.Uniform({5})}});
  for (const Ints& dims : {Ints{3, 2}, Ints{2, 3, 2}, Ints{2, 2, 2, 3}}) {
    const Ints c = {dims[1]};
    cases.push_back({"channel_variance", {}, {r.Uniform(dims), r.Uniform(c)}});
    cases.push_back({"batch_norm",
                     {{"epsilon", 1e-3}},
                     {r.Uniform(dims), r.Uniform(c), r.Uniform(c), r.Uniform(c), r.Uniform(c, 0.5, 2)}});
  }
  cases.push_back({"softmax", {}, {r.Uniform({3, 5})}});
  cases.push_back({"layer_norm", {{"epsilon", 1e-3}}, {r.Uniform({2, 3, 5}), r.Uniform({5}), r.Uniform({5})}});
  cases.push_back({"embedding", {}, {r.Uniform({7, 3}), r.Integers({2, 5}, 7)}});
  cases.push_back({"softmax_cross_entropy", {}, {r.Uniform({2, 3, 5}), r.Integers({2, 3}, 5)}});
  cases.push_back({"exp_sum", {}, {r.Uniform({2, 3, 5}), r.Uniform({2, 3})}});
  cases.push_back({"softmax_apply", {}, {r.Uniform({2, 3, 5}), r.Uniform({2, 3}), r.Uniform({2, 3}, 1, 3)}});
  cases.push_back({"row_dot", {}, {r.Uniform({2, 3, 5}), r.Uniform({2, 3, 5})}});
  const AttrMap along = {{"axis", int64_t{1}}, {"size", int64_t{4}}};
  cases.push_back({"gather", along, {r.Uniform({2, 4, 3}), r.Integers({5, 2}, 4)}});
  cases.push_back({"scatter_add", along, {r.Uniform({2, 5, 2, 3}), r.Integers({5, 2}, 4)}});
  cases.push_back({"take_along", {}, {r.Uniform({2, 3, 5}), r.Integers({2, 3, 7}, 5)}});
  cases.push_back({"put_along", {{"columns", int64_t{5}}}, {r.Uniform({2, 3, 7}), r.Integers({2, 3, 7}, 5)}});
  cases.push_back({"top_k", {{"k", int64_t{3}}}, {r.Uniform({2, 3, 7})}});
  for (const int64_t stride : {1, 2}) {
    cases.push_back(
        {"conv2d", {{"stride", stride}, {"padding", int64_t{1}}}, {r.Uniform({2, 2, 5, 6}), r.Uniform({3, 2, 3, 3})}});
    cases.push_back({"max_pool2d", {{"kernel", int64_t{2}}, {"stride", stride}}, {r.Uniform({1, 2, 5, 6})}});
  }
  return cases;
}

// The values of a graph's tensors, from those of its variables.
absl::StatusOr<std::map<ValueId, RefTensor>> Interpret(const Graph& graph, std::map<ValueId, RefTensor> values) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op == "variable") continue;
    std::vector<RefTensor> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(values.at(input));
    OF_ASSIGN_OR_RETURN_AT(std::vector<RefTensor> outputs, Reference(node.op, node.attrs, inputs), Where(node));
    for (size_t i = 0; i < outputs.size(); ++i) values[node.outputs[i]] = std::move(outputs[i]);
  }
  return values;
}

double Dot(const std::vector<RefTensor>& outputs, const std::vector<std::optional<RefTensor>>& weights) {
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (int64_t j = 0; weights[i].has_value() && j < outputs[i].count(); ++j)
      sum += outputs[i].values[j] * weights[i]->values[j];
  }
  return sum;
}

// Which outputs a gradient may flow back from: side products such as a mean, an index or an lse are not differentiated.
bool Flows(const std::string& op, size_t output) {
  return output == 0 || (op != "layer_norm" && op != "rms_norm" && op != "attention" && op != "softmax_cross_entropy" &&
                         op != "max_pool2d" && op != "top_k");
}

void Check(const OpRegistry& ops, const GradientCase& c, Random& r) {
  ASSERT_NE(ops.Find(c.op), nullptr);
  ASSERT_NE(ops.Find(c.op)->grad, nullptr) << "no gradient";
  std::vector<RefTensor> inputs = c.inputs;
  ASSERT_OK_AND_ASSIGN(const std::vector<RefTensor> outputs, Reference(c.op, c.attrs, inputs));

  // The forward node on variables, and its gradient.
  GraphBuilder builder(ops, "gradient");
  std::map<ValueId, RefTensor> values;
  const auto variable = [&](const std::string& name, const RefTensor& x) {
    const Tensor tensor = builder.Variable(name, {x.dtype, Shape(x.dims)}, "zeros", {}, IsFloating(x.dtype));
    values[tensor.id()] = x;
    return tensor;
  };
  std::vector<Tensor> xs;
  for (size_t i = 0; i < c.inputs.size(); ++i) xs.push_back(variable(absl::StrCat("x", i), c.inputs[i]));
  const std::vector<Tensor> ys = builder.Op(c.op, xs, c.attrs);
  ASSERT_OK(builder.status());
  std::vector<std::optional<RefTensor>> weights(outputs.size());
  std::vector<std::optional<Tensor>> dys(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!Flows(c.op, i)) continue;
    weights[i] = r.Uniform(outputs[i].dims);
    dys[i] = variable(absl::StrCat("dy", i), *weights[i]);
  }
  GradContext context(builder, builder.graph().value(ys[0].id()).producer, dys);
  for (size_t i = 0; i < c.inputs.size(); ++i)
    context.set_needs_grad(static_cast<int>(i), c.inputs[i].dtype == DType::kFloat32);
  ASSERT_OK(ops.Find(c.op)->grad(context));
  ASSERT_OK(builder.status());
  ASSERT_OK_AND_ASSIGN(const auto all, Interpret(builder.graph(), values));

  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i].dtype != DType::kFloat32) continue;
    ASSERT_TRUE(context.input_grads()[i].has_value()) << "input " << i << " has no gradient";
    const RefTensor& gradient = all.at(context.input_grads()[i]->id());
    ASSERT_EQ(gradient.dims, c.inputs[i].dims) << "gradient of input " << i;
    for (int64_t j = 0; j < gradient.count(); ++j) {
      constexpr double kStep = 1e-5;
      const auto loss = [&](double shift) {
        std::vector<RefTensor> shifted = c.inputs;
        shifted[i].values[j] += shift;
        return Dot(*Reference(c.op, c.attrs, shifted), weights);
      };
      const double slope = (loss(kStep) - loss(-kStep)) / (2 * kStep);
      ASSERT_NEAR(gradient.values[j], slope, 1e-6 * (1 + std::abs(slope))) << "input " << i << " element " << j;
    }
  }
}

TEST(GradientTest, GradientsAgreeWithDifferences) {
  const OpRegistry ops = StandardOps();
  Random r(kSeed + 1);
  for (const GradientCase& c : GradientCases()) {
    SCOPED_TRACE(absl::StrCat(c.op, ", seed ", kSeed));
    Check(ops, c, r);
    if (HasFatalFailure()) return;
  }
}

// As differences of the whole: of x -> mean, var -> y.
TEST(GradientTest, OfABatchNormInTrainingHoldWhatFlowsThroughItsStatistics) {
  const OpRegistry ops = StandardOps();
  Random r(kSeed + 2);
  GraphBuilder b(ops, "gradient");
  std::map<ValueId, RefTensor> values;
  const auto variable = [&](const std::string& name, const RefTensor& x) {
    const Tensor tensor = b.Variable(name, {x.dtype, Shape(x.dims)}, "zeros");
    values[tensor.id()] = x;
    return tensor;
  };
  const Tensor x = variable("x", r.Uniform({4, 3, 2})), gamma = variable("gamma", r.Uniform({3}));
  const Tensor beta = variable("beta", r.Uniform({3})), dy = variable("dy", r.Uniform({4, 3, 2}));
  const Tensor y = BatchNorm(x, gamma, beta, 1e-3).y;
  GradContext context(b, b.graph().value(y.id()).producer, {dy});
  ASSERT_OK(ops.Find("batch_norm")->grad(context));
  ASSERT_OK(b.status());
  ASSERT_OK_AND_ASSIGN(const auto all, Interpret(b.graph(), values));
  const std::vector<Tensor> inputs = {x, gamma, beta};
  for (int i = 0; i < 3; ++i) {
    const RefTensor& gradient = all.at(context.input_grads()[i]->id());
    ASSERT_EQ(gradient.dims, values[inputs[i].id()].dims);
    for (int64_t j = 0; j < gradient.count(); ++j) {
      constexpr double kStep = 1e-5;
      const auto loss = [&](double shift) {
        std::map<ValueId, RefTensor> shifted = values;
        shifted[inputs[i].id()].values[j] += shift;
        return Dot({Interpret(b.graph(), shifted)->at(y.id())}, {values[dy.id()]});
      };
      const double slope = (loss(kStep) - loss(-kStep)) / (2 * kStep);
      ASSERT_NEAR(gradient.values[j], slope, 1e-6 * (1 + std::abs(slope)))
          << "input " << i << " element " << j << ", seed " << kSeed + 2;
    }
  }
}

TEST(GradientTest, EveryOpWithAGradientHasACase) {
  const OpRegistry ops = StandardOps();
  std::set<std::string> covered;
  for (const GradientCase& c : GradientCases()) covered.insert(c.op);
  for (const auto& [name, op] : ops.all()) {
    EXPECT_TRUE(op.grad == nullptr || covered.count(name)) << name;
  }
}

TEST(GradientTest, EveryOpThatComputesHasAReference) {
  const OpRegistry ops = StandardOps();
  const std::set<std::string> plumbing = {"variable", "read_data", "fetch", "boxing"};
  const std::vector<std::string> names = ReferenceOps();
  const std::set<std::string> known(names.begin(), names.end());
  for (const auto& [name, op] : ops.all()) {
    EXPECT_TRUE(plumbing.count(name) || known.count(name)) << name;
  }
}

}  // namespace
}  // namespace oneflow::testing
