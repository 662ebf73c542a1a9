// Builds small boxed graphs by hand, as the passes would leave them: every value with a dist, every node with a
// placement.
#pragma once

#include <string>
#include <vector>

#include "compiler/boxed_graph.h"
#include "gtest/gtest.h"
#include "oneflow_core/ragged.h"
#include "test/support/standard_ops.h"

namespace oneflow::testing {

// "[dp=2]{0,1}(S(0))".
inline DistType Dist(const std::string& text) {
  const size_t split = text.find('}') + 1;
  absl::StatusOr<Placement> placement = Placement::Parse(text.substr(0, split));
  absl::StatusOr<NdSbp> sbp = ParseNdSbp(text.substr(split));
  EXPECT_TRUE(placement.ok() && sbp.ok()) << text;
  return {*placement, *sbp};
}

// So many ranks in one process.
inline Topology OneProcess(int num_ranks = 64) {
  return *Topology::Create(num_ranks, num_ranks, {HostGroup{.devices = num_ranks}});
}

class GraphKit {
 public:
  explicit GraphKit(std::string name) : graph_(std::move(name)) {}

  // What nodes added from now on are.
  GraphKit& Are(Role role, Rate rate) {
    role_ = role;
    rate_ = rate;
    return *this;
  }

  std::vector<ValueId> Node(const std::string& op, const std::string& name, const std::vector<ValueId>& inputs,
                            const std::vector<std::string>& dists, AttrMap attrs = {}) {
    std::vector<TensorType> types;
    for (ValueId input : inputs) types.push_back(graph_.value(input).type);
    absl::StatusOr<std::vector<TensorType>> outputs = InferTypes(*Ops().Find(op), {types, attrs});
    EXPECT_TRUE(outputs.ok()) << name << ": " << outputs.status();
    oneflow::Node node;
    node.op = op;
    node.name = name;
    node.attrs = std::move(attrs);
    node.inputs = inputs;
    node.role = role_;
    node.rate = op == "variable" ? Rate::kStep : rate_;
    node.source = "kit.cc:1";
    node.placement = dists.empty() ? graph_.value(inputs[0]).dist->placement : Dist(dists[0]).placement;
    const NodeId id = graph_.AddNode(std::move(node), *outputs);
    for (size_t i = 0; i < outputs->size(); ++i) graph_.value(graph_.node(id).outputs[i]).dist = Dist(dists[i]);
    return graph_.node(id).outputs;
  }
  ValueId Node1(const std::string& op, const std::string& name, const std::vector<ValueId>& inputs,
                const std::string& dist, AttrMap attrs = {}) {
    return Node(op, name, inputs, {dist}, std::move(attrs))[0];
  }
  ValueId Variable(const std::string& name, const Shape& shape, const std::string& dist) {
    return Node1(
        "variable", name, {}, dist,
        {{"dtype", std::string("f32")}, {"shape", shape.dims()}, {"init", std::string("zeros")}, {"trainable", true}});
  }
  ValueId Constant(const std::string& name, const Shape& shape, const std::string& dist) {
    return Node1("constant", name, {}, dist, {{"dtype", std::string("f32")}, {"shape", shape.dims()}, {"value", 1.0}});
  }
  ValueId Box(const std::string& name, ValueId value, const std::string& dist) {
    return Node1("boxing", name, {value}, dist);
  }

  Graph& graph() { return graph_; }

 private:
  Graph graph_;
  Role role_ = Role::kForward;
  Rate rate_ = Rate::kStep;
};

// A training step of relu(x w) per stage, with SGD: data-parallel over `data` ranks, one stage per entry of a pipeline.
struct StepShape {
  int stages = 1;
  int data = 1;
  int micro_batches = 1;
};

inline std::string StagePlacement(const StepShape& shape, int stage) {
  std::string ranks;
  for (int i = 0; i < shape.data; ++i) absl::StrAppend(&ranks, i > 0 ? "," : "", stage * shape.data + i);
  return absl::StrCat(shape.data > 1 ? absl::StrCat("[dp=", shape.data, "]") : "[]", "{", ranks, "}");
}

inline Graph TrainingStep(const StepShape& shape, const std::string& name = "train") {
  GraphKit kit(name);
  const bool split = shape.data > 1;
  const Rate fast = shape.micro_batches > 1 ? Rate::kMicroBatch : Rate::kStep;
  const auto at = [&](int stage, const std::string& sbp) {
    return StagePlacement(shape, stage) + (split ? "(" + sbp + ")" : "()");
  };
  std::vector<ValueId> weights, momenta, inputs, outputs;
  kit.Are(Role::kForward, fast);
  ValueId x = kit.Node("read_data", "read", {}, {at(0, "S(0)"), at(0, "S(0)")},
                       {{"dataset", std::string("images")},
                        {"batch", int64_t{8}},
                        {"channels", int64_t{1}},
                        {"height", int64_t{1}},
                        {"width", int64_t{16}}})[0];
  x = kit.Node1("reshape", "flat", {x}, at(0, "S(0)"), {{"shape", std::vector<int64_t>{8, 16}}});
  for (int s = 0; s < shape.stages; ++s) {
    const std::string prefix = absl::StrCat("s", s, "/");
    if (s > 0) x = kit.Box(prefix + "receive", x, at(s, "S(0)"));
    weights.push_back(kit.Variable(prefix + "w", {16, 16}, at(s, "B")));
    momenta.push_back(kit.Variable(prefix + "u", {16, 16}, at(s, "B")));
    inputs.push_back(x);
    x = kit.Node1("matmul", prefix + "matmul", {x, weights[s]}, at(s, "S(0)"));
    x = kit.Node1("relu", prefix + "relu", {x}, at(s, "S(0)"));
    outputs.push_back(x);
  }
  std::vector<ValueId> grads(shape.stages);
  kit.Are(Role::kInputGradient, fast);
  ValueId dy = kit.Node1("scale", "loss_grad", {x}, at(shape.stages - 1, "S(0)"), {{"alpha", 2.0}});
  for (int s = shape.stages - 1; s >= 0; --s) {
    const std::string prefix = absl::StrCat("s", s, "/");
    const ValueId dh = kit.Node1("relu_grad", prefix + "dh", {dy, outputs[s]}, at(s, "S(0)"));
    grads[s] = kit.Node1("matmul_wgrad", prefix + "dw", {inputs[s], dh}, at(s, "P"));
    if (s == 0) break;
    dy = kit.Node1("matmul", prefix + "dx", {dh, weights[s]}, at(s, "S(0)"), {{"transpose_b", true}});
    dy = kit.Box(prefix + "send_grad", dy, at(s - 1, "S(0)"));
  }
  for (int s = 0; s < shape.stages; ++s) {
    const std::string prefix = absl::StrCat("s", s, "/");
    kit.Are(Role::kInputGradient, fast);
    if (shape.micro_batches > 1) grads[s] = kit.Node1("accumulate", prefix + "sum", {grads[s]}, at(s, "P"));
    kit.Are(Role::kInputGradient, Rate::kStep);
    if (split) {
      grads[s] = kit.Box(prefix + "scatter", grads[s], at(s, "S(0)"));
      grads[s] = kit.Box(prefix + "gather", grads[s], at(s, "B"));
    }
    kit.Are(Role::kUpdate, Rate::kStep);
    const ValueId lr = kit.Constant(prefix + "lr", {}, at(s, "B"));
    const ValueId scale = kit.Constant(prefix + "clip", {}, at(s, "B"));
    kit.Node("sgd_update", prefix + "update", {weights[s], momenta[s], grads[s], lr, scale}, {},
             {{"momentum", 0.9}, {"weight_decay", 0.0}, {"nesterov", false}});
  }
  return std::move(kit.graph());
}

inline CompileOptions OptionsFor(const StepShape& shape, int ranks_per_process = 1) {
  CompileOptions options;
  options.job = "kit";
  std::vector<Axis> axes;
  if (shape.stages > 1) axes.push_back({"pp", shape.stages});
  if (shape.data > 1) axes.push_back({"dp", shape.data});
  options.mesh = *Mesh::Create(axes);
  options.ranks_per_process = ranks_per_process;
  options.micro_batches = shape.micro_batches;
  return options;
}

}  // namespace oneflow::testing
