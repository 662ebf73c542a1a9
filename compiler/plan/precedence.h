// In which order nodes of a graph may run, for whatever reason.
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Which serial resource of a device an actor is on (proto/program.proto: Queue). What is on different queues happens at
// the same time, as far as waits allow.
enum class Queue : uint8_t { kCompute, kCommunication, kHost };

// Reasons of order between nodes: data, what a node says that it comes after, and "mutate after all reads".
struct Precedence {
  std::vector<std::vector<NodeId>> before;  // of each node
  std::vector<std::vector<NodeId>> after;
  // All nodes; of those that may come next what makes gradients that other ranks wait for, then by id.
  std::vector<NodeId> sorted;
  std::vector<int> position;  // in `sorted`
  // Acts once per step and micro-batches wait for it. It may not share a chain with what waits for micro-batches.
  std::vector<bool> leads;
  std::vector<Queue> queue;  // of each node
  std::vector<int> section;  // of each node: which actions of a schedule it is part of (sections.h), 0: none

  void Add(NodeId first, NodeId second) {
    after[first].push_back(second);
    before[second].push_back(first);
  }
};

bool IsVariable(const Node& node);
bool IsBoxing(const Node& node);

// How often a node acts: `accumulate` does with the micro-batches; only its output is slower.
Rate ActRate(const Node& node);

// The inputs that a node overwrites, as values of variables; empty for most.
using Mutations = std::vector<std::vector<ValueId>>;

// InvalidArgument if an op is not in the registry.
absl::StatusOr<Mutations> FindMutations(const Graph& graph, const OpRegistry& ops);
// Unimplemented if the order "mutate after all reads" is a circle: two nodes that each overwrite what the other reads.
absl::StatusOr<Precedence> FindPrecedence(const Graph& graph, const OpRegistry& ops, const Mutations& mutations);

}  // namespace oneflow
