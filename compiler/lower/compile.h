// The compiler's front door: a program and its options to the plan set that the runtime executes.
#pragma once

#include "compiler/options.h"
#include "oneflow_core/op.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Version of the plan format; a reader refuses any other.
inline constexpr uint32_t kPlanVersion = 1;

// Compiles every graph of `program`, in order: passes, physical plan, check that no cycle of waits lacks a token,
// lowering. The serialised result is a function of the arguments alone. Errors as in boxed_graph.h; FailedPrecondition
// with the shortest bad cycle if a plan could deadlock.
absl::StatusOr<pb::PlanSet> Compile(const Program& program, const CompileOptions& options, const OpRegistry& ops);

// A graph after the pass pipeline (boxed_graph.h), and how many micro-batches make a step of it.
struct BoxedGraph {
  Graph graph;
  int micro_batches = 1;
};

// The part of Compile behind the passes. Internal if a graph breaks the contract or a plan's memory overlaps.
absl::StatusOr<pb::PlanSet> CompileBoxed(const std::vector<BoxedGraph>& program, const CompileOptions& options,
                                         const OpRegistry& ops);

// Deterministic serialisation, and its SHA-256 in hex, which every worker compares before it starts.
std::string SerializePlan(const pb::PlanSet& plan);
std::string PlanHash(const std::string& serialized);

}  // namespace oneflow
