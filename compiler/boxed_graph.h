// The contract between the logical passes (compiler/passes/) and the physical plan (compiler/plan/): the invariants of
// a graph after the pass pipeline.
//
//   - Every node has a placement; every value has a `dist` whose placement is its producer's, or has its axes and its
//     ranks in another order: then ranks have one another's parts.
//   - Every node except a boxing has its inputs on its own placement, or one of the same ranks, and along every axis
//     the SBPs of its inputs and outputs are one of the op's signatures.
//   - A `boxing` node has one output and is one step: OneBoxingStep(input.dist -> output.dist) succeeds. Its placement
//     is that of its output: every destination rank does its own reading. The boxing of a ragged value also reads
//     counts: input 1 has the layout of the source, input 2, if there is one, that of the result.
//   - `to` nodes are gone.
//   - Rates: variables, and nodes that depend on variables only, act once per step. read_data and nodes that depend on
//     it act once per micro-batch. `accumulate` turns micro-batch rate into step rate. A micro-batch-rate node may read
//     step-rate values; a step-rate node reads micro-batch-rate values only through `accumulate`. An `accumulate` node
//     itself acts once per micro-batch (rate kMicroBatch) but its output is a step-rate value: ask ValueRate, not the
//     producer. With one micro-batch per step everything has rate kStep and no `accumulate` is left.
//   - A node reads the variables that it mutates directly, without boxing. The mutation follows all other reads of the
//     step; this order is implied, not an edge, and the physical plan must keep it.
//   - Variables have the dist that the first graph of the program gave them (`VariableDists`): their home. In a plan
//     with a mesh of its own the home may be no part of that mesh.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "compiler/options.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "sbp/topology.h"

namespace oneflow {

using VariableDists = std::map<std::string, DistType>;

// Called after each pass with its name and the resulting graph: for --dump-after, and for tests.
using PassObserver = std::function<void(absl::string_view pass, const Graph& graph)>;

// Runs the pass pipeline (pipeline.h) on one graph of a program. Reads the dists of variables already fixed from
// `variables` and adds those that this graph fixes. Errors name pass, node and the user's line: InvalidArgument for
// impossible annotations or shapes, Unimplemented for ops without a gradient. Warnings for the user are added to
// `warnings`, unless it is null.
absl::StatusOr<Graph> RunPasses(Graph graph, const CompileOptions& options, const OpRegistry& ops,
                                VariableDists& variables, const PassObserver& observer = nullptr,
                                std::vector<std::string>* warnings = nullptr);

// Checks the contract above. Internal, naming the node, if it does not hold.
absl::Status VerifyBoxedGraph(const Graph& graph, const OpRegistry& ops, const CompileOptions& options);

// Whether the node adds to the sum of earlier micro-batches: `accumulate`, and ops fused with it.
bool SumsMicroBatches(const Node& node, const OpRegistry& ops);

// How often a value gets new contents: the rate of its producer, but once per step for the outputs of `accumulate`.
Rate ValueRate(const Graph& graph, ValueId value, const OpRegistry& ops);

// Adds `node`, a boxing whose op, name and inputs are set, on behalf of `like`: it brings `value` to `to`. Returns its
// output.
ValueId AddBoxing(Graph& graph, Node node, const Node& like, ValueId value, const DistType& to, const OpRegistry& ops);

// InvalidArgument if the mesh of a plan takes ranks that the job does not have, the job does not fit its hosts, or
// processes do not fit on them.
absl::Status CheckHosts(const CompileOptions& options);
// The ranks of the job, their devices and links, as prices and boxing paths see them. REQUIRES: CheckHosts is OK.
Topology JobTopology(const CompileOptions& options);

}  // namespace oneflow
