// A graph as a search problem (search.h), and what the problem's numbers mean.
//
//   node            its options are its layouts (candidates.h), with the seconds that computing takes
//   value           the price of changing it from one dist to another
//   dist            a layout of a tensor on the second of two places, seen from the first; one number for all pairs of
//                   places that look alike (sbp/place_pairs.h), so that the stages of a pipeline share prices
//
// Nodes that look alike have equal options, and values that look alike equal prices. Each is worked out once.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/boxed_graph.h"
#include "compiler/select/candidates.h"
#include "compiler/select/cost_model.h"
#include "compiler/select/memory_limit.h"
#include "compiler/select/search.h"
#include "compiler/select/select_sbp.h"
#include "sbp/place_pairs.h"

namespace oneflow {

class LayoutProblem {
 public:
  // Borrows its arguments.
  LayoutProblem(const Graph& graph, const OpRegistry& ops, const Topology& topology, const VariableDists& variables,
                const SelectOptions& options);
  LayoutProblem(const LayoutProblem&) = delete;  // the prices of problem() refer to this object
  LayoutProblem& operator=(const LayoutProblem&) = delete;

  // Fills in the problem. Errors as of CandidateFinder::Find; as of FindAgreement, which sets `conflict`.
  absl::Status Build(std::vector<NodeId>& conflict);

  const SearchProblem& problem() const { return problem_; }
  // The layouts of a node, in the order of its options.
  const std::vector<Layout>& LayoutsOf(NodeId id) const {
    return group_[id] < 0 ? fixed_.at(id) : finder_.LayoutsOf(group_[id]);
  }
  // Unimplemented, naming both nodes and the nearest dists that can be reached, if the choice needs a boxing that does
  // not exist; `conflict` then lists both nodes.
  absl::Status CheckPossible(const std::vector<int>& choice, std::vector<NodeId>& conflict);
  // The limits that the options name.
  std::vector<MemoryLimit> Limits() const;
  // Where not all layouts were considered; one note for all nodes that look alike.
  std::vector<std::string> Notes() const;
  int num_prices() const { return costs_.num_prices(); }

 private:
  bool Is(NodeId id, OpKind kind) const { return ops_.Is(graph_.node(id).op, kind); }
  bool IsWeight(NodeId id) const;
  double Acts(Rate rate) const { return rate == Rate::kMicroBatch ? options_.micro_batches : 1; }

  absl::Status AddNodes();
  absl::Status FindLayouts(NodeId id);
  std::vector<int> Pairs(NodeId id);
  std::vector<SearchProblem::Option> Options(NodeId id, const OpDef& op, const std::vector<int>& pairs);
  void AddValues();

  int Dist(int pair, const NdSbp& sbp);
  int MadeAs(ValueId value, const std::vector<int>& choice) const;
  double BoxingOnce(ValueId value, int from, int to);
  Cost Boxing(ValueId value, int from, int to);
  int64_t Bytes(ValueId value, int dist) const;
  std::string Proposals(ValueId value, int from, int to);

  const Graph& graph_;
  const OpRegistry& ops_;
  const VariableDists& variables_;
  const SelectOptions& options_;
  CandidateFinder finder_;
  CostModel costs_;
  PlacePairs pairs_;
  std::vector<std::pair<int, NdSbp>> dists_;  // by number: pair of places, and the SBP on the second of them
  std::map<std::pair<int, NdSbp>, int> dist_ids_;
  std::vector<int> place_;                       // by node
  std::vector<int> group_;                       // by node, of the finder; -1: a variable that has its layout
  std::map<NodeId, std::vector<Layout>> fixed_;  // of these variables
  std::vector<int> type_ids_;                    // by value
  std::vector<CostModel::Travel> travels_;       // by value
  std::vector<std::string> agreement_notes_;
  SearchProblem problem_;
};

}  // namespace oneflow
