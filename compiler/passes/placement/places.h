// The places of nodes so far: the rules of placement read and write them. Each rule is a file beside this one;
// place_nodes.cc runs them in order.
//
//   rule                reads                                writes
//   variables.h         earlier graphs, the user's wishes    variables with a place of their own
//   forward.h           wishes, work, crossing bytes         what the model computes
//   variables.h         readers                              the other variables, and what overwrites them
//   followers.h         provenance                           gradients and updates
//   sources.h           readers                              data and constants, a copy for each place
//   homes.h             readers                              variables at home elsewhere, as they are read here
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/passes/passes.h"

namespace oneflow {

// A part of the plan's mesh, and the stage of the model that it holds there; or a variable's home elsewhere, and stage
// 0. Stages are numbered along the model: as coordinates of the pipeline, or as chunks where a schedule cuts the model
// into more of them.
struct Site {
  int stage = 0;
  Placement placement;
};

class Places {
 public:
  // `graph` and `context` are borrowed. InvalidArgument if the mesh cannot be cut into stages.
  static absl::StatusOr<Places> Create(Graph& graph, const PassContext& context);

  Graph& graph() const { return graph_; }
  const PassContext& context() const { return context_; }
  int num_stages() const { return static_cast<int>(stages_.size()); }
  // The share of the work of each stage.
  const std::vector<double>& shares() const { return shares_; }
  // A whole stage.
  const Site& stage(int stage) const { return stages_[stage]; }
  // The first stage that a placement belongs to; 0 if it belongs to none.
  int StageOf(const Placement& placement) const;
  // The first stage from `first` on that lies on this placement.
  std::optional<int> StageFrom(int first, const Placement& placement) const;
  // Whether a variable lies outside the plan's mesh, or across it, because an earlier graph on another mesh has placed
  // it.
  bool IsElsewhere(NodeId variable) const;

  const std::optional<Site>& at(NodeId id) const { return at_[id]; }
  void Put(NodeId id, Site location) { at_[id] = std::move(location); }
  // The same for a node that was just added to the graph.
  void PutNew(Site location) { at_.push_back(std::move(location)); }

  // The place that the node's wish names; on `stage` if the wish names none. InvalidArgument if that is outside the
  // mesh.
  absl::StatusOr<Site> Wished(NodeId id, int stage) const;
  bool WishesStage(NodeId id) const;

  const OpDef& op(NodeId id) const { return *context_.ops.Find(graph_.node(id).op); }
  bool Is(NodeId id, OpKind kind) const { return op(id).kind == kind; }
  bool IsVariable(NodeId id) const { return Is(id, OpKind::kVariable); }
  // Data, a constant, or an annotation of one: a pure function, of which every place may have its own copy.
  bool IsSource(NodeId id) const;
  // Forward nodes that do the model's work, in topological order.
  std::vector<NodeId> ForwardWork() const;
  NodeId Producer(ValueId value) const { return graph_.value(value).producer; }

 private:
  Places(Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        mesh_(context.options.MeshOf(graph.name())),
        at_(graph.num_nodes()),
        elsewhere_(graph.num_nodes(), false) {}

  std::optional<int> StageFrom(int first, int coordinate) const;

  Graph& graph_;
  const PassContext& context_;
  const PlanMesh mesh_;
  std::vector<int> rank_of_stage_;  // coordinates of the pipeline
  std::vector<Site> stages_;
  std::vector<double> shares_;           // by stage
  std::vector<std::optional<Site>> at_;  // by node
  std::vector<bool> elsewhere_;          // by node
};

}  // namespace oneflow
