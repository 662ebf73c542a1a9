// The contract between the logical passes (compiler/passes/) and the physical plan (compiler/plan/): what holds of a
// graph after the pass pipeline.
//
//   - Every node has a placement; every value has a `dist` whose placement is its producer's.
//   - Of a node that is not a boxing: all inputs have the node's placement, and along every axis the SBPs of inputs and
//     outputs are one of the op's signatures.
//   - A `boxing` node has one input and one output and is one step: OneBoxingStep(input.dist -> output.dist) succeeds.
//     Its placement is its output's: every destination rank does its own reading. Of a ragged value it reads the counts
//     too, which lie with the input.
//   - `to` nodes are gone.
//   - Rates: variables and what depends only on them act once per step, read_data and what depends on it once per
//     micro-batch; `accumulate` turns micro-batch rate into step rate. A micro-batch-rate node may read step-rate
//     values; a step-rate node reads micro-batch-rate values only through `accumulate`. An `accumulate` node itself
//     acts once per micro-batch (rate kMicroBatch) but its output is a step-rate value: ask ValueRate, not the
//     producer. With one micro-batch per step everything has rate kStep and no `accumulate` is left.
//   - Variables that a node mutates are read by it directly, without boxing. That mutation follows all other reads of
//     the step is implied, not an edge: the physical plan must order it.
//   - Variables have the dist that the program's first graph using them gave them (`VariableDists`): their home, which
//     in a plan with a mesh of its own may be no part of that mesh.
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

// Called after each pass with its name and what it left: for --dump-after, and for tests.
using PassObserver = std::function<void(absl::string_view pass, const Graph& graph)>;

// Runs the pass pipeline (pipeline.h) on one graph of a program. Reads the dists of variables already fixed from
// `variables` and adds those that this graph fixes. Errors name pass, node and the user's line: InvalidArgument for
// impossible annotations or shapes, Unimplemented for ops without a gradient. What is no error but worth telling the
// user is added to `warnings`, unless it is null.
absl::StatusOr<Graph> RunPasses(Graph graph, const CompileOptions& options, const OpRegistry& ops,
                                VariableDists& variables, const PassObserver& observer = nullptr,
                                std::vector<std::string>* warnings = nullptr);

// Checks the contract above. Internal, naming the node, if it does not hold.
absl::Status VerifyBoxedGraph(const Graph& graph, const OpRegistry& ops, const CompileOptions& options);

// Whether the node adds to what earlier micro-batches gave: `accumulate`, and what is fused with it.
bool SumsMicroBatches(const Node& node);

// How often new contents of a value appear: its producer's rate, but once per step for what `accumulate` sums.
Rate ValueRate(const Graph& graph, ValueId value);

// InvalidArgument if a plan's mesh takes ranks that the job has not, the job does not fit its hosts, or processes do
// not fit on them.
absl::Status CheckHosts(const CompileOptions& options);
// The ranks of the job, their devices and links, as prices and boxing paths see them. REQUIRES: CheckHosts is OK.
Topology JobTopology(const CompileOptions& options);

}  // namespace oneflow
