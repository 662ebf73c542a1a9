// The possible layouts of a node: products of one signature per axis of its placement, without those that annotations
// exclude.
//
//   relu on [dp=2,tp=2], its value asked to be tp:S(1)      dp: S(0)->S(0) | S(1)->S(1) | B->B   x   tp: S(1)->S(1)
//
// An annotation holds for its value and propagates: where data was annotated as split along an axis, nodes that can
// work on it as it is do so, until one cannot. (Data that is split over samples stays split over samples, even where
// small or large weights would make another layout a little faster: a user who says so means data parallelism, and
// reads it in the plan.) Cost decides axes and tensors that no annotation reaches.
//
// Annotations have priorities, and a propagated split has that of the strongest behind it. A node meets wishes and
// keeps splits in the order of their numbers. A wish that contradicts stronger ones yields; if it has priority 0, that
// is an error.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/look_alikes.h"
#include "compiler/node_view.h"
#include "compiler/options.h"
#include "compiler/select/own_values.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "sbp/signatures.h"

namespace oneflow {

// Finds the layouts of nodes, one after another in topological order. Nodes that look alike (same op, types,
// attributes, axes, wishes and kept splits, on any placement), such as those of repeated layers, form a group that is
// computed once. Borrows its arguments.
class CandidateFinder {
 public:
  explicit CandidateFinder(const Graph& graph, const OpRegistry& ops, OwnValues own = OwnValues(),
                           RingUse rings = RingUse::kByCost)
      : graph_(graph), ops_(ops), own_(std::move(own)), rings_(rings), alike_(graph), kept_(graph.num_values()) {}

  // All layouts of `node` on its placement that fit the hints of its outputs, in a fixed order; never empty. Layouts
  // that leave a rank without any elements are excluded, unless annotations leave no other; ops that overwrite
  // variables may have them. If there are more than kMaxCandidates, the axes with most signatures lose some; the
  // replicated layout is never lost. InvalidArgument naming the node, the requested SBP and the possible ones, if a
  // hint cannot be met. REQUIRES: the node has a placement; all nodes before it were asked for.
  absl::StatusOr<std::vector<Layout>> Find(NodeId node);
  // The same, as the number of the node's group.
  absl::StatusOr<int> FindGroup(NodeId node);
  const std::vector<Layout>& LayoutsOf(int group) const { return groups_[group].layouts; }
  int num_groups() const { return static_cast<int>(groups_.size()); }
  // How many combinations of signatures there were before kMaxCandidates cut them, and how many were left; equal if it
  // cut none.
  std::pair<int64_t, int64_t> Considered(int group) const { return {groups_[group].all, groups_[group].considered}; }

  // 7 signatures on each of 3 axes.
  static constexpr int kMaxCandidates = 343;

 private:
  // The greatest priorities of wishes and of kept splits that count.
  struct Weakest {
    int wish = 0, kept = 0;
  };

  absl::StatusOr<const std::vector<Signature>*> Signatures(NodeId node, int axis_size);
  std::set<int> Priorities(const Node& node) const;
  absl::StatusOr<std::vector<Signature>> OnAxis(NodeId node, const Axis& axis, const Weakest& weakest);
  std::vector<Signature> Usable(const std::vector<Signature>& all, const std::vector<Axis>& axes,
                                const Axis& axis) const;
  bool KeepInputs(const Node& node, const Axis& axis, int priority, std::vector<Signature>& signatures);
  void KeepOutputs(const Node& node, const Axis& axis, const std::vector<Signature>& signatures, int inputs_kept);
  absl::StatusOr<std::vector<Layout>> Combinations(NodeId node);
  absl::StatusOr<std::vector<Layout>> CombinationsDownTo(NodeId node, const Weakest& weakest);
  std::vector<int> GroupKey(const Node& node);
  AxisSbp* Kept(ValueId value, const std::string& axis);
  void Forget(ValueId value) { kept_[value].clear(); }
  absl::StatusOr<bool> Nests(NodeId node, const std::vector<const Signature*>& per_axis);

  const Graph& graph_;
  const OpRegistry& ops_;
  const OwnValues own_;
  const RingUse rings_;
  LookAlikes alike_;
  std::map<std::vector<int>, std::vector<Signature>> known_;  // by key of look-alikes and axis size
  std::vector<std::vector<AxisSbp>> kept_;  // by value: splits that an annotation reaches, by axis name

  struct Group {
    std::vector<Layout> layouts;
    std::vector<std::vector<AxisSbp>> kept;  // by output
    int64_t all = 0, considered = 0;         // combinations of signatures
  };
  std::vector<Group> groups_;
  int64_t all_ = 0, considered_ = 0;          // combinations of the node that was looked at last
  std::map<std::vector<int>, int> group_of_;  // by key
};

}  // namespace oneflow
