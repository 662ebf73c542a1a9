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
  // Its gradient is asked to lie likewise too: whole where the tensor is a sum in addends. (Otherwise the compiler
  // chooses where the gradient of `To` lies.)
  Tensor ToWithGradient(SbpHint sbp, std::source_location loc = std::source_location::current()) const;
  // The same tensor on another part of the mesh.
  Tensor To(PlacementHint at, SbpHint sbp, std::source_location loc = std::source_location::current()) const;
  // The same variable, which lies in a tier of memory below the device's ("host" or "disk", tiers.h) while nothing
  // computes with it. Fails (sticks) if it is no variable, or there is no such tier.
  Tensor KeptIn(absl::string_view tier, std::source_location loc = std::source_location::current()) const;

 private:
  Tensor Asked(AttrMap attrs, PlacementHint at, SbpHint sbp, std::source_location loc) const;

  GraphBuilder* builder_ = nullptr;
  ValueId id_ = -1;
};

class GraphBuilder {
 public:
  // `ops` is borrowed and must outlive the builder.
  GraphBuilder(const OpRegistry& ops, std::string graph_name);

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

  // A variable without a gradient that belongs to the model: an average that a layer keeps (variable_role.h).
  Tensor Statistic(absl::string_view name, const TensorType& type, absl::string_view init,
                   std::source_location loc = std::source_location::current());

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

  const absl::Status& status() const { return status_; }
  // Keeps `status` if it is the first error.
  void Fail(absl::Status status);
  const Graph& graph() const { return graph_; }
  const OpRegistry& ops() const { return ops_; }
  // The finished graph, or the first error. The builder is empty afterwards.
  absl::StatusOr<Graph> Finish();

 protected:
  // Goes on with `graph`.
  GraphBuilder(const OpRegistry& ops, Graph graph);

  const OpRegistry& ops_;
  Graph graph_;
  PlacementHint at_;
  Node like_;                          // new nodes copy its provenance
  std::optional<std::string> source_;  // if set, the source line of new nodes

 private:
  friend class Tensor;

  // The next node: with the role, source line and hint that are set.
  Node NewNode(const std::source_location& loc) const;
  // What a node of `def` reads of ragged `inputs`: them and their counts, or all of them padded. InvalidArgument if the
  // op refuses them or they have different counts.
  absl::StatusOr<std::vector<ValueId>> RaggedInputs(const OpDef& def, const std::vector<Tensor>& inputs,
                                                    const AttrMap& attrs, std::source_location loc);

  absl::Status status_;
  std::string scope_;  // "" or "h0/mlp/"
  std::optional<DType> precision_;
  UniqueNames names_;
  std::map<std::string, ValueId> variables_;
};

}  // namespace oneflow
