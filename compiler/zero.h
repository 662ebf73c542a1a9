// Sharded data parallelism (ZeRO, FSDP): what ranks along some axes have in parts instead of copies.
//
//   stage 1   weights and their optimizer state lie split; a weight is gathered once a step
//   stage 2   sums of gradients too: addends are reduced to the parts in every micro-batch
//   stage 3   a weight is gathered for each of its uses, in every micro-batch
//
// Stages 1 and 2 are wishes (passes/split_states.cc): everything else follows from types. Of stage 3 it is
// passes/gather_weights.cc that a copy does not live longer than what reads it.
#pragma once

#include <set>
#include <string>

#include "compiler/options.h"

namespace oneflow {

// The axes of more than one rank that a name is for: those of a role, or the one of that name.
std::set<std::string> AxesNamed(const Mesh& mesh, const std::string& name);

// The axes of a graph's mesh along which states lie split; none if the job does not ask for it, or this mesh has none.
std::set<std::string> ZeroAxes(const CompileOptions& options, const Graph& graph);

// The bytes at which a unit is full that travels at once among the ranks of a placement: those that the job asks for,
// else a bucket's; 0: nothing travels, and none is full.
int64_t UnitBytes(const ZeroOptions& zero, const Placement& on, const Topology& topology);

}  // namespace oneflow
