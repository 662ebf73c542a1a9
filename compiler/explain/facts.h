// The decisions of the compiler for a program and their costs, gathered in one place so that explaining is only a
// matter of words (explain.h, html.h).
//
// A graph is read in three states of the pass pipeline. The serial numbers of nodes and values connect them:
//
//   differentiated   after `autodiff`           which gradient belongs to which variable
//   placed           what `select-sbp` sees     annotations (`to` nodes, hints), the candidates of every node
//   boxed            after all passes           how everything lies, every boxing as single steps
//
// The boxed graph is the one that runs: it has the options of the job, so ops are fused and weights packed where the
// plan has it so. A node says which others became part of it (Node::parts).
//
// A boxing, for people, is the change between two types that somebody reads: a chain of `boxing` nodes without a reader
// or a fork in between. So each step belongs to exactly one boxing, and costs add up.
//
//   matmul P ─ box S(0) ─ box B ─ relu            one boxing P -> B in two steps
//   matmul P ─ box S(0) ┬ box B ─ relu            P -> S(0), then S(0) -> B
//                       └ add
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/boxed_graph.h"
#include "compiler/node_view.h"
#include "compiler/select/candidates.h"
#include "compiler/select/cost_model.h"
#include "sbp/boxing.h"

namespace oneflow {

// Bytes by the kind of link that they cross. Of ragged rows only the filled ones are sent: the full capacity is an
// upper bound.
struct LinkBytes {
  int64_t same_process = 0;
  int64_t same_host = 0;  // between processes
  int64_t between_hosts = 0;
  bool at_most = false;  // else exactly

  int64_t total() const { return same_process + same_host + between_hosts; }
  LinkBytes& operator+=(const LinkBytes& o);
  LinkBytes operator*(int times) const;
};

struct BoxingStepFacts {
  NodeId node = -1;  // of the boxed graph
  Collective collective = Collective::kNone;
  std::vector<std::string> axes;  // mesh axes along which the type changes
  LinkBytes bytes;                // of one act
  double seconds = 0;             // of one act's transfers
};

struct BoxingFacts {
  ValueId tensor = -1;         // what an op made, in the boxed graph
  ValueId from = -1, to = -1;  // it, or what an earlier boxing made of it; and what this one makes
  std::vector<BoxingStepFacts> steps;
  int acts = 1;  // of a step of training
  // Of one act: the price in the search, with the costs of a boxing beside its transfers.
  double seconds = 0;
  LinkBytes bytes;

  double seconds_per_step() const { return seconds * acts; }
  LinkBytes bytes_per_step() const { return bytes * acts; }
};

// The reason for the layout of a tensor along one mesh axis.
struct Origin {
  enum class Kind : uint8_t {
    kAnnotated,  // the user asked for it
    kInherited,  // it follows from an annotated tensor (`from`) that is kept as it is
    kFixed,      // an earlier graph of the program laid the variable so
    kTied,       // it is overwritten together with variable `from`
    kOnly,       // its op leaves no choice
    kCost,       // the cheapest of several
  };
  Kind kind = Kind::kCost;
  NodeId from = -1;      // of the placed graph
  bool yielded = false;  // the user asked for another layout, which yielded to stronger annotations
};

struct GraphFacts {
  Graph differentiated, placed, boxed;
  const OpRegistry* ops = nullptr;                          // borrowed
  std::map<std::string, NodeId> placed_nodes, boxed_nodes;  // by name, as people ask for them
  // By node of `boxed`: the same node of `placed`, or the node that it computes again, or -1.
  std::vector<NodeId> placed_of;
  // By node of `boxed` into which others were fused: the nodes of `placed` that it is made of, itself among them.
  std::map<NodeId, std::vector<NodeId>> parts;
  // By node of `placed`: the same node of `boxed`, or the first that it became part of, or -1.
  std::vector<NodeId> boxed_of;
  // The same for values; a value that is computed again has no other. -1: within a fused op it is never there.
  std::vector<ValueId> placed_value_of, boxed_value_of;
  std::vector<ValueId> gradients;  // by value of `boxed`: the value that is its gradient, or -1
  VariableDists fixed;             // by earlier graphs
  int micro_batches = 1;

  bool Is(const Node& node, OpKind kind) const { return ops->Is(node.op, kind); }

  std::vector<std::vector<NodeId>> placed_readers;  // by value of `placed`
  std::vector<Layout> chosen;                       // by node of `placed`
  std::vector<std::vector<Layout>> candidates;      // by node of `placed`; contains the chosen one
  std::vector<std::vector<Origin>> origins;         // by value of `placed`, by axis of its placement

  std::vector<double> compute;       // by node of `boxed`: predicted seconds of a step; 0 for boxings
  std::vector<BoxingFacts> boxings;  // in the order of `tensor`
  std::vector<int> boxing_of_value;  // by value of `boxed`: index of the boxing that ends there, or -1
  double compute_seconds() const;    // of a step, one node after another
  double boxing_seconds() const;
  LinkBytes bytes_moved() const;  // per step
};

struct JobFacts {
  CompileOptions options;
  const OpRegistry* ops = nullptr;  // borrowed
  Topology topology;
  std::vector<GraphFacts> graphs;
};

// Runs the passes on every graph of `program`, as Compile() does, and gathers. Errors as of RunPasses. `ops` must
// outlive the result.
absl::StatusOr<JobFacts> GatherFacts(const Program& program, const CompileOptions& options, const OpRegistry& ops);

// By node or value of `graph`: the same of `other`, or -1 if it is not there. Both are states of one graph.
std::vector<NodeId> SameNodes(const Graph& graph, const Graph& other);
std::vector<ValueId> SameValues(const Graph& graph, const Graph& other);

// The tensor behind boxings: follows a value of the boxed graph back to the op that made it.
ValueId TensorOf(const GraphFacts& facts, ValueId value);
// The same through `to` nodes of the placed graph; their ids are appended to `annotations`, last first.
ValueId BehindAnnotations(const GraphFacts& facts, ValueId value, std::vector<NodeId>* annotations = nullptr);

}  // namespace oneflow
