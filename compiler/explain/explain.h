// Why tensors lie as they do, the costs, and what moves when: as text, for `oneflow plan explain`.
//
// Times are prices of the cost model (compiler/select/cost_model.h), which selection compared, as if nothing
// overlapped. Bytes are the later counts of the runtime: exactly, or "at most" for ragged rows, of which only the
// filled ones are sent.
#pragma once

#include <string>

#include "compiler/explain/facts.h"

namespace oneflow {

// The job, and per graph a summary and all boxings, dearest first; equal boxings of repeated layers are one entry.
std::string ExplainJob(const JobFacts& job);

// One tensor, in the first graph that has it: its layout and the reason; the op that makes it and by which signature;
// its readers and their types; its boxings; the other layouts of its op; its gradient. `name` as in lookup.h. A prefix
// of several names gives a list of them. NotFound with the nearest names if there is no such name.
absl::StatusOr<std::string> ExplainTensor(const JobFacts& job, absl::string_view name);

// The same for a node of graph.boxed and all its outputs, as the page shows it (html.h).
std::string ExplainNode(const JobFacts& job, const GraphFacts& facts, NodeId node, CostModel& costs);

}  // namespace oneflow
