// Every gradient formula against numbers: the graph that an op's `grad` writes, interpreted by the reference in double,
// must agree with central differences of the op itself.
//
//   L(x) = sum over outputs of <dy, op(x)>        dL/dx_i ~ (L(x + h e_i) - L(x - h e_i)) / 2h
#include <cmath>
#include <map>
#include <set>

#include "kernels/kernel.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/op_facts.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kGradientSeed = 7;

// Whether a gradient flows through a case, from floats to floats.
bool IsDifferentiable(const OpRegistry& ops, const OpCase& c) {
  const OpDef* const op = ops.Find(c.op);
  if (op == nullptr || op->grad == nullptr || c.inputs[0].dtype != DType::kFloat32) return false;
  const auto outputs = op->infer({TypesOf(c.inputs), c.attrs});
  return outputs.ok() && IsFloating((*outputs)[0].dtype);
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
  if (op == "lstm") return output < 2;
  return output == 0 || (op != "layer_norm" && op != "rms_norm" && op != "softmax_cross_entropy" && op != "gru" &&
                         op != "max_pool2d" && op != "top_k");
}

// Without what lies behind its rows: it counts for nothing.
RefTensor Padded(const RefTensor& x, const RefTensor& counts) {
  std::vector<RefTensor> operands = {x, counts};
  return (*Reference("pad_rows", {}, operands))[0];
}

void Check(const OpRegistry& ops, OpCase c, Random& r) {
  if (ops.Find(c.op)->random) c.attrs.Set("key", std::string("k"));  // one that the gradient can take over
  std::vector<RefTensor> inputs = c.inputs;
  ASSERT_OK_AND_ASSIGN(const std::vector<RefTensor> outputs, Reference(c.op, c.attrs, inputs));

  // The forward node on variables, and its gradient.
  GraphEditor builder(ops, Graph("gradient"));
  std::map<ValueId, RefTensor> values;
  const auto variable = [&](const std::string& name, const RefTensor& x) {
    const Tensor tensor = builder.Variable(name, {x.dtype, Shape(x.dims)}, "zeros", {}, IsFloating(x.dtype));
    values[tensor.id()] = x;
    return tensor;
  };
  std::vector<Tensor> xs;
  for (size_t i = 0; i < c.inputs.size(); ++i) xs.push_back(variable(absl::StrCat("x", i), c.inputs[i]));
  const Tensor counts = xs.back();  // where operands are ragged
  const auto as = [&](const RefTensor& like, Tensor x) { return like.ragged < 0 ? x : KeepRows(x, counts); };
  for (size_t i = 0; i < c.inputs.size(); ++i) xs[i] = as(c.inputs[i], xs[i]);
  const std::vector<Tensor> ys = builder.Op(c.op, xs, c.attrs);
  ASSERT_OK(builder.status());
  std::vector<std::optional<RefTensor>> weights(outputs.size());
  std::vector<std::optional<Tensor>> dys(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!Flows(c.op, i)) continue;
    weights[i] = r.Uniform(outputs[i].dims);
    weights[i]->dtype = outputs[i].dtype;
    dys[i] = as(outputs[i], variable(absl::StrCat("dy", i), *weights[i]));
    if (outputs[i].ragged >= 0) weights[i] = Padded(*weights[i], c.inputs.back());
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
    RefTensor gradient = all.at(context.input_grads()[i]->id());
    if (gradient.ragged >= 0) gradient = Padded(gradient, c.inputs.back());
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
  Random r(kGradientSeed + 1);
  for (const OpCase& c : Examples(kGradientSeed)) {
    if (!IsDifferentiable(ops, c)) continue;
    SCOPED_TRACE(absl::StrCat(c.op, ", seed ", kGradientSeed));
    Check(ops, c, r);
    if (HasFatalFailure()) return;
  }
}

// The gradient of a case on operands of a narrow type; none where the op does not take them, or rows are ragged.
absl::StatusOr<std::optional<Graph>> NarrowGradient(const OpRegistry& ops, const OpCase& c) {
  const OpDef& op = *ops.Find(c.op);
  GraphEditor builder(ops, Graph("gradient"));
  std::vector<Tensor> xs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    TensorType type = TypeOf(c.inputs[i]);
    const bool is_full = std::count(op.full_inputs.begin(), op.full_inputs.end(), static_cast<int>(i)) > 0;
    if (type.dtype == DType::kFloat32 && !is_full) type.dtype = DType::kBFloat16;
    if (type.is_ragged()) return std::nullopt;
    xs.push_back(builder.Variable(absl::StrCat("x", i), type, "zeros", {}, IsFloating(type.dtype)));
  }
  AttrMap attrs = c.attrs;
  if (op.random) attrs.Set("key", std::string("k"));
  const std::vector<Tensor> ys = builder.Op(c.op, xs, attrs);
  if (!builder.status().ok() || ys[0].type().is_ragged()) return std::nullopt;
  std::vector<std::optional<Tensor>> dys(ys.size());
  dys[0] = builder.Variable("dy", ys[0].type(), "zeros");
  GradContext context(builder, builder.graph().value(ys[0].id()).producer, dys);
  for (size_t i = 0; i < xs.size(); ++i) {
    context.set_needs_grad(static_cast<int>(i), IsFloating(xs[i].type().dtype));
  }
  OF_RETURN_IF_ERROR(op.grad(context));
  OF_RETURN_IF_ERROR(builder.status());
  return builder.graph();
}

// A gradient is written after mixed precision has said which types there are, so it has to do with them.
TEST(GradientTest, InANarrowTypeEveryNodeOfAGradientHasAKernel) {
  const OpRegistry ops = StandardOps();
  const KernelTable kernels = CpuKernels();
  int gradients = 0;
  for (const OpCase& c : Examples(kGradientSeed)) {
    if (!IsDifferentiable(ops, c) || !ComputesNarrow(*ops.Find(c.op))) continue;
    SCOPED_TRACE(c.op);
    ASSERT_OK_AND_ASSIGN(const std::optional<Graph> graph, NarrowGradient(ops, c));
    if (!graph.has_value()) continue;
    for (NodeId id = 0; id < graph->num_nodes(); ++id) {
      const Node& node = graph->node(id);
      if (!ops.Is(node.op, OpKind::kCompute) || node.inputs.empty()) continue;
      const DType dtype = graph->value(node.inputs[0]).type.dtype;
      EXPECT_NE(kernels.Find(node.op, dtype), nullptr) << node.op << " of " << Name(dtype);
    }
    ++gradients;
  }
  EXPECT_GT(gradients, 30);
}

// As differences of the whole: of x -> mean, var -> y.
TEST(GradientTest, OfABatchNormInTrainingHoldWhatFlowsThroughItsStatistics) {
  const OpRegistry ops = StandardOps();
  Random r(kGradientSeed + 2);
  GraphEditor b(ops, Graph("gradient"));
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
          << "input " << i << " element " << j << ", seed " << kGradientSeed + 2;
    }
  }
}

TEST(GradientTest, EveryOpWithAGradientHasACase) {
  const OpRegistry ops = StandardOps();
  std::set<std::string> covered;
  for (const OpCase& c : Examples(kGradientSeed)) {
    if (IsDifferentiable(ops, c)) covered.insert(c.op);
  }
  for (const auto& [name, op] : ops.all()) {
    EXPECT_TRUE(op.grad == nullptr || covered.count(name)) << name;
  }
}

TEST(GradientTest, EveryOpThatComputesHasAReference) {
  const OpRegistry ops = StandardOps();
  const std::set<std::string> plumbing = {"variable", "read_data", "boxing", "from_tier", "to_tier", "store_in_tier"};
  const std::vector<std::string> names = ReferenceOps();
  const std::set<std::string> known(names.begin(), names.end());
  for (const auto& [name, op] : ops.all()) {
    EXPECT_TRUE(plumbing.count(name) || known.count(name) || RunsOnOneRank(op)) << name;
  }
}

}  // namespace
}  // namespace oneflow::testing
