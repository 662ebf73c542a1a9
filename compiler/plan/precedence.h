// The order in which nodes of a graph may run, for any reason.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Where a node, whose op is of that kind, acts.
Queue QueueOf(const Node& node, OpKind kind);

// Reasons of order between nodes: data, what a node says that it comes after, and "mutate after all reads".
struct Precedence {
  std::vector<std::vector<NodeId>> before;  // of each node
  std::vector<std::vector<NodeId>> after;
  // All nodes. Among those that may come next, makers of gradients that other ranks wait for go first, then by id.
  std::vector<NodeId> sorted;
  std::vector<int> position;  // in `sorted`
  // It acts once per step and micro-batches wait for it. It may not share a chain with nodes that wait for
  // micro-batches.
  std::vector<bool> leads;
  std::vector<OpKind> kind;  // of each node
  // How often each node acts: `accumulate` acts per micro-batch; only its output is slower.
  std::vector<Rate> act_rate;
  std::vector<Queue> queue;  // of each node
  std::vector<int> section;  // of each node: its actions in a schedule (sections.h), 0: none

  bool IsVariable(NodeId node) const { return kind[node] == OpKind::kVariable; }
  bool IsBoxing(NodeId node) const { return kind[node] == OpKind::kBoxing; }
  bool SumsMicroBatches(NodeId node) const { return kind[node] == OpKind::kAccumulate; }

  void Add(NodeId first, NodeId second) {
    after[first].push_back(second);
    before[second].push_back(first);
  }
};

// The variables that a node overwrites, as values; empty for most.
using Mutations = std::vector<std::vector<ValueId>>;

// Pairs of users of a value that was loaded from a tier, the first of which must run before the second: those that only
// read it, then those that overwrite it, one after the other, then those that store it. `users` ascend.
std::vector<std::pair<NodeId, NodeId>> OrderOfOverwriting(const Graph& graph, const OpRegistry& ops, ValueId value,
                                                          const std::vector<NodeId>& users, const Mutations& mutations);

// InvalidArgument if an op is not in the registry.
absl::StatusOr<Mutations> FindMutations(const Graph& graph, const OpRegistry& ops);
// Unimplemented if the order "mutate after all reads" has a cycle: two nodes that each overwrite what the other reads.
absl::StatusOr<Precedence> FindPrecedence(const Graph& graph, const OpRegistry& ops, const Mutations& mutations);

}  // namespace oneflow
