// Chains: runs of nodes that one actor executes, found on the logical graph and so the same on every rank of a
// placement.
//
// A node's key is (queue, placement, rate): what reads data or hands values to the host is on the host's queue, boxings
// are on that of communication, all else computes. A node's level is the longest way to it, counting the edges on which
// the key changes or a boxing ends; nodes of one key and one level are one chain:
//
//   rank 0,1    read  │  matmul ─ relu ─ ... ─ wgrad  │ reduce(w0) reduce(w1) │  adamw(w0) adamw(w1)
//              level 0,          level 1,                  level 2,                  level 3,
//               host             compute                   communication             compute
//
// Of the nodes that act once per step, those that micro-batches wait for are one key, those that wait for micro-batches
// another: together they would wait for themselves. Every edge between two chains goes up in level, so the graph of
// chains has no cycle. That a mutation of a variable comes after all its readers is one more kind of edge here. Boxings
// of one level never feed one another, and those with the same placements share an actor: fewer messages.
//
// Nodes go to the earliest level, but for two kinds that would only lengthen lives or blur parts there: nodes without
// inputs, and nodes of backward and update that need nothing of others of these. They go down to their first reader.
// And gradients on their way to the update, and variables on theirs to who computes with them, travel in buckets, which
// cut what makes or reads them (buckets.h).
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/precedence.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "sbp/topology.h"

namespace oneflow {

struct Chain {
  enum class Kind : uint8_t { kCompute, kBoxing };

  Kind kind = Kind::kCompute;
  Queue queue = Queue::kCompute;
  Rate rate = Rate::kStep;
  // kBackward if any node is backward, else kForward if any is forward.
  StepPart part = StepPart::kUpdate;
  int section = 0;         // of a schedule (sections.h); 0: none
  bool gradients = false;  // a boxing for which nothing but the update waits
  int level = 0;
  Placement placement;        // whose ranks act; of a boxing the destination
  Placement source;           // of a boxing
  std::vector<NodeId> nodes;  // in the order they run
  std::string name;           // "forward.0 h0/q (+12)"
};

struct ChainGraph {
  std::vector<Chain> chains;       // by ascending level
  std::vector<int> chain_of_node;  // -1 for variables
  // The inputs that a node overwrites, as values of variables; empty for most.
  std::vector<std::vector<ValueId>> mutated;

  bool Mutates(NodeId node, ValueId variable) const;
};

// Unimplemented if the order "mutate after all reads" is a circle (two nodes that each overwrite what the other reads),
// or if two chains would mutate one variable. InvalidArgument if an op is not in the registry.
// With a schedule, of so many micro-batches, what it puts in order shares no chain with other such.
// `overlaps_gradients` as in CompileOptions.
absl::StatusOr<ChainGraph> BuildChains(const Graph& graph, const OpRegistry& ops, const Topology& topology,
                                       const Schedule* schedule = nullptr, int micro_batches = 1,
                                       bool overlaps_gradients = true);

// Checks from scratch that edges between chains ascend, that nodes in a chain follow what they read or come after, and
// that mutations follow all reads. Internal, naming both nodes, if not.
absl::Status VerifyChains(const Graph& graph, const ChainGraph& chains);

}  // namespace oneflow
