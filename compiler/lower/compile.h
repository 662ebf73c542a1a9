// The compiler's front door: from a program and its options to the plan of the job. Each worker gets its own part
// (program.h).
#pragma once

#include "compiler/options.h"
#include "oneflow_core/op.h"

namespace oneflow {

namespace pb {
class PlanSet;
}

// Compiles every graph of `program`, in order: passes, physical plan, check that no cycle of waits lacks a token,
// lowering. The serialised result is a function of the arguments alone. Errors as in boxed_graph.h; FailedPrecondition
// with the shortest bad cycle if a plan could deadlock. `warnings`, unless null, gets warnings for the user.
absl::StatusOr<pb::PlanSet> Compile(const Program& program, const CompileOptions& options, const OpRegistry& ops,
                                    std::vector<std::string>* warnings = nullptr);

// A graph after the pass pipeline (boxed_graph.h), and the number of micro-batches per step.
struct BoxedGraph {
  Graph graph;
  int micro_batches = 1;
  bool beside = false;  // it may run beside the others, on a queue and in memory of its own
};

// The part of Compile behind the passes. Internal if a graph breaks the contract or a plan's memory overlaps.
absl::StatusOr<pb::PlanSet> CompileBoxed(const std::vector<BoxedGraph>& program, const CompileOptions& options,
                                         const OpRegistry& ops);

// Deterministic serialisation, and its SHA-256 in hex, which all workers of a job compare before they start.
// ResourceExhausted if the plan is too large to be written.
absl::StatusOr<std::string> SerializePlan(const pb::PlanSet& plan);
std::string PlanHash(const std::string& serialized);

// The SHA-256 of bytes, in hex digits.
std::string Sha256(absl::string_view bytes);

}  // namespace oneflow
