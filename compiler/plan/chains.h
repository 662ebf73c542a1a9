// Chains: runs of nodes that one actor executes. They are found on the logical graph, so they are the same on every
// rank of a placement.
//
// The key of a node is (queue, placement, rate). Reading data and fetching is on the host's queue, boxing on that of
// communication, all else on that of compute. The level of a node is the longest path to it, counting the edges on
// which the key changes or a boxing ends. Nodes of one key and one level are one chain:
//
//   rank 0,1    read  │  matmul ─ relu ─ ... ─ wgrad  │ reduce(w0) reduce(w1) │  adamw(w0) adamw(w1)
//              level 0,          level 1,                  level 2,                  level 3,
//               host             compute                   communication             compute
//
// Nodes that act once per step have two keys: those that micro-batches wait for, and those that wait for micro-batches.
// In one chain they would wait for themselves. Every edge between two chains goes up in level, so the graph of chains
// has no cycle. The order "a variable is mutated after all its readers" is one more kind of edge. Boxings of one level
// never feed one another; those with the same placements share an actor, which saves messages.
//
// Nodes go to the earliest level, with two exceptions that would lengthen lifetimes or mix parts of the step there:
// nodes without inputs, and nodes of backward and update that need nothing from other such nodes. These go down to
// their first reader, but not with a bucket to its last gradient. Gradients on their way to the update, and variables
// on theirs to their readers, travel in buckets, which cut the chains that make or read them (buckets.h).
//
// A gather or load of weights may wait until the readers of others are done, so that it has room. These readers end
// their chains: what follows them in the order goes on while the gather runs.
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/precedence.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "oneflow_core/queues.h"
#include "sbp/topology.h"

namespace oneflow {

struct Chain {
  enum class Kind : uint8_t { kCompute, kBoxing };

  Kind kind = Kind::kCompute;
  Queue queue = kComputeQueue;
  Rate rate = Rate::kStep;
  // kBackward if any node is backward, else kForward if any is forward.
  StepPart part = StepPart::kUpdate;
  int section = 0;         // of a schedule (sections.h); 0: none
  bool gradients = false;  // a boxing that only the update waits for
  bool is_stored = false;  // of the update: a copy to a tier waits for it
  int level = 0;
  Placement placement;        // its ranks act; the destination of a boxing
  Placement source;           // of a boxing
  std::vector<NodeId> nodes;  // in the order they run
  std::string name;           // "forward.0 h0/q (+12)"
};

struct ChainGraph {
  std::vector<Chain> chains;       // by ascending level
  std::vector<int> chain_of_node;  // -1 for variables
  // The variables that a node overwrites, as values; empty for most.
  std::vector<std::vector<ValueId>> mutated;

  bool Mutates(NodeId node, ValueId variable) const;
};

// Unimplemented if the order "mutate after all reads" has a cycle (two nodes that each overwrite what the other reads),
// or if two chains would mutate one variable. InvalidArgument if an op is not in the registry. With a schedule of
// `micro_batches`, different sections share no chain. `overlaps_gradients` as in CompileOptions.
absl::StatusOr<ChainGraph> BuildChains(const Graph& graph, const OpRegistry& ops, const Topology& topology,
                                       const Schedule* schedule = nullptr, int micro_batches = 1,
                                       bool overlaps_gradients = true);

// Checks from scratch that edges between chains ascend, that nodes in a chain follow their inputs and the nodes that
// they come after, and that mutations follow all reads. Internal, naming both nodes, if not.
absl::Status VerifyChains(const Graph& graph, const OpRegistry& ops, const ChainGraph& chains);

}  // namespace oneflow
