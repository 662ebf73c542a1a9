// The DSL: declares graphs by calling ops on tensors.
//
//   GraphBuilder b(ops, "mlp");
//   Tensor x = ReadImageBatch(b, data, DataSplit::kTrain, /*batch=*/64).inputs;
//   Tensor w = b.Variable("w", {DType::kFloat32, {784, 128}}, "normal(0.02)", {{"tp", Sbp::Split(1)}});
//   Tensor y = Relu(MatMul(x, w)).To({{"dp", Sbp::Split(0)}});
//   ...
//   OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
//
// The first error sticks to the builder and is returned by Finish(); until then calls on invalid tensors return invalid
// tensors, so that a model reads as mathematics. Every node remembers the line of user code that made it. Not
// thread-safe.
#pragma once

#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "oneflow_core/unique_names.h"

namespace oneflow {

class GraphBuilder;

// A value of a graph under construction; a small handle, valid while its builder lives. Free functions on tensors (Add,
// MatMul, ...) are in oneflow_core/functional.h.
class Tensor {
 public:
  Tensor() = default;
  Tensor(GraphBuilder* builder, ValueId id) : builder_(builder), id_(id) {}

  bool valid() const { return builder_ != nullptr && id_ >= 0; }
  GraphBuilder* builder() const { return builder_; }
  ValueId id() const { return id_; }
  // The type; f32[] if invalid.
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }

  // The same tensor, asked to lie as `sbp` says (axes not named are left to the compiler).
  Tensor To(SbpHint sbp, std::source_location loc = std::source_location::current()) const;
  // The same tensor on another part of the mesh.
  Tensor To(PlacementHint at, SbpHint sbp, std::source_location loc = std::source_location::current()) const;

 private:
  GraphBuilder* builder_ = nullptr;
  ValueId id_ = -1;
};

class GraphBuilder {
 public:
  // `ops` is borrowed and must outlive the builder.
  GraphBuilder(const OpRegistry& ops, std::string graph_name);
  // Goes on with `graph`, as passes of the compiler do.
  GraphBuilder(const OpRegistry& ops, Graph graph);

  // Adds a node. `name` is its last path component and defaults to the op's name; a number is added where needed. If
  // inputs are ragged it reads their counts too, or padded ones (ragged.h). Fails (sticks) if the op does not exist, an
  // input is invalid, or inference refuses the types.
  std::vector<Tensor> Op(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs = {},
                         std::source_location loc = std::source_location::current(), absl::string_view name = "");
  // The same for an op with exactly one output.
  Tensor Op1(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs = {},
             std::source_location loc = std::source_location::current(), absl::string_view name = "");

  // State that outlives the step, initialised as `init` says: "zeros", "ones", "constant(v)", "normal(std)",
  // "uniform(bound)", or "list(1,2,3)". Its name under the scope is its identity across the plans of a job; asking
  // again for the same name returns the same tensor (a tied weight) and fails if the type or the hint differs; no hint
  // is any. `trainable`: autodiff gives it a gradient.
  Tensor Variable(absl::string_view name, const TensorType& type, absl::string_view init, SbpHint hint = {},
                  bool trainable = true, std::source_location loc = std::source_location::current());

  // Declares a scalar to be minimised; of several their sum is. Fails if it is not an f32 scalar.
  void SetLoss(const Tensor& loss);

  // Prefixes the names made while it lives: Scope s(b, "h0"); nests.
  class Scope {
   public:
    Scope(GraphBuilder& builder, absl::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    GraphBuilder& builder_;
    size_t saved_length_;
  };
  // Nodes made while it lives carry this placement hint: PlacementScope p(b, {{"pp", 1}}).
  class PlacementScope {
   public:
    PlacementScope(GraphBuilder& builder, PlacementHint at);
    ~PlacementScope();
    PlacementScope(const PlacementScope&) = delete;
    PlacementScope& operator=(const PlacementScope&) = delete;

   private:
    GraphBuilder& builder_;
    PlacementHint saved_;
  };

  // Nodes made while it lives compute products in this floating type, and what follows from them, whatever the job's
  // policy is: PrecisionScope full(b, DType::kFloat32). Fails (sticks) if the type is not floating.
  class PrecisionScope {
   public:
    PrecisionScope(GraphBuilder& builder, DType compute);
    ~PrecisionScope();
    PrecisionScope(const PrecisionScope&) = delete;
    PrecisionScope& operator=(const PrecisionScope&) = delete;

   private:
    GraphBuilder& builder_;
    const std::optional<DType> saved_;
  };

  // A segment of the model: nodes made while it lives are part of it. Segment s(b, "layers"); nests.
  class Segment {
   public:
    Segment(GraphBuilder& builder, absl::string_view kind);
    ~Segment();
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;

   private:
    GraphBuilder& builder_;
    const int saved_;
  };

  // What new nodes are for; see Node.
  void set_role(Role role, NodeId forward = -1, NodeId variable = -1);
  // If set, the source line given to new nodes (autodiff points at the forward line).
  void set_source(std::optional<std::string> source) { source_ = std::move(source); }
  void set_placement_hint(PlacementHint at) { at_ = std::move(at); }

  // New nodes are for what `like` is for, and have its source line and placement hint.
  void Imitate(const Node& like);

  const absl::Status& status() const { return status_; }
  // Keeps `status` if it is the first error.
  void Fail(absl::Status status);
  const Graph& graph() const { return graph_; }
  Graph& mutable_graph() { return graph_; }
  const OpRegistry& ops() const { return ops_; }
  // The finished graph, or the first error. The builder is empty afterwards.
  absl::StatusOr<Graph> Finish();

 private:
  // A node as the next one will be: with the role, source line and hint that are set.
  Node NewNode(const std::source_location& loc) const;
  // What a node of `def` reads of ragged `inputs`: them and their counts, or all of them padded. InvalidArgument if the
  // op refuses them or they have different counts.
  absl::StatusOr<std::vector<ValueId>> RaggedInputs(const OpDef& def, const std::vector<Tensor>& inputs,
                                                    const AttrMap& attrs, std::source_location loc);

  const OpRegistry& ops_;
  Graph graph_;
  absl::Status status_;
  std::string scope_;  // "" or "h0/mlp/"
  PlacementHint at_;
  std::optional<DType> precision_;
  Node like_;  // whose provenance new nodes copy
  std::optional<std::string> source_;
  UniqueNames names_;
  std::map<std::string, ValueId> variables_;
};

// What an op's `grad` sees: the forward node, the gradients that have arrived at its outputs, and where to put those of
// its inputs.
class GradContext {
 public:
  // `output_grads` has one entry per output; empty where nothing downstream needs that output's gradient (at least one
  // is set).
  GradContext(GraphBuilder& builder, NodeId node, std::vector<std::optional<Tensor>> output_grads);

  // The forward node's name and a copy of its attributes.
  std::string name() const;
  AttrMap attrs() const;
  Tensor input(int i) const;
  Tensor output(int i) const;
  // What has arrived at output i, in the element type of the output, or in `dtype`. A gradient may come in another
  // floating type than its value's, which `arrived_grad` keeps.
  std::optional<Tensor> output_grad(int i);
  std::optional<Tensor> output_grad(int i, DType dtype);
  const std::optional<Tensor>& arrived_grad(int i) const { return output_grads_[i]; }
  // Whether anyone needs the gradient of input i; Call()s for others may be left out.
  bool needs_grad(int i) const { return needs_[i]; }
  void set_needs_grad(int i, bool needs) { needs_[i] = needs; }

  // Adds a node that serves the forward node, under its name and source line. Its role is kFusedGradient: which inputs
  // it is for is known when all gradients are set.
  Tensor Call1(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs = {});
  std::vector<Tensor> Call(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs = {});
  // `grad` has the shape of input i, and its element type or another floating one. It is padded, or its filled rows are
  // kept, where it is ragged and the input is not, or the other way round.
  void SetInputGrad(int i, Tensor grad);
  const std::vector<std::optional<Tensor>>& input_grads() const { return input_grads_; }

 private:
  GraphBuilder& builder_;
  NodeId node_;
  std::vector<std::optional<Tensor>> output_grads_;
  std::map<std::pair<int, DType>, Tensor> cast_grads_;  // of outputs
  std::vector<std::optional<Tensor>> input_grads_;
  std::vector<bool> needs_;
};

}  // namespace oneflow
