// Writes the physical plan down as proto/plan.proto: the last step of the compiler and, with its neighbours in this
// folder, the only place that sees protobuf.
//
// An instruction carries all that a kernel may ask: local dims, logical dims and the shard's start, the node's
// attributes, and for ops that draw random numbers the integers `seed` (of the job) and `key` (a fingerprint of who
// draws), which replace an attribute of that name. Boxings become copies between shards, or
// copies around a collective.
#pragma once

#include "compiler/options.h"
#include "compiler/plan/physical_plan.h"
#include "proto/plan.pb.h"

namespace oneflow {

// FNV-1a, 64 bits: the fingerprint of names in keys of random numbers.
uint64_t Fingerprint(absl::string_view text);

// The groups of ranks that make calls together, as lists of members: one for all plans of a job.
using Communicators = std::vector<std::vector<int>>;

// Adds the groups that it needs and `communicators` lacks.
pb::Plan LowerPlan(const PlanInput& input, const PhysicalPlan& plan, uint64_t seed, Communicators& communicators);

// The ranks, with zones as large as their largest plan, and the variables.
void LowerRanks(const CompileOptions& options, const VariableTable& variables, const std::vector<PhysicalPlan>& plans,
                pb::PlanSet& set);
void LowerVariables(const VariableTable& variables, pb::PlanSet& set);
void LowerCommunicators(const Communicators& communicators, pb::PlanSet& set);

}  // namespace oneflow
