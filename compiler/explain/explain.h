// Why tensors lie as they do, what that costs, and what moves when: as text, for `oneflow plan explain`.
//
// Times are the cost model's (compiler/select/cost_model.h): what selection compared, as if nothing overlapped. Bytes
// are what the runtime will count: exactly, or "at most" where rows are ragged, of which only the filled ones are sent.
#pragma once

#include <string>

#include "compiler/explain/facts.h"

namespace oneflow {

// The job and per graph a summary and all boxings, dearest first; those of repeated layers that are alike are one
// entry.
std::string ExplainJob(const JobFacts& job);

// One tensor, in the first graph that has it: how it lies and who wanted it so; what makes it and by which signature;
// who reads it and as what; its boxings; the other layouts of its op; its gradient. `name` as in lookup.h. A beginning
// of several names gives a list of them. NotFound with the nearest names if nothing is called so.
absl::StatusOr<std::string> ExplainTensor(const JobFacts& job, absl::string_view name);

// The same for a node of graph.boxed and all its outputs, as the page shows it (html.h).
std::string ExplainNode(const JobFacts& job, const GraphFacts& facts, NodeId node, CostModel& costs);

}  // namespace oneflow
