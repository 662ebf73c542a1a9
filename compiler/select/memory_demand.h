// What a step holds in the memory of ranks, as far as layouts decide it: the demand behind limits on memory.
//
//   variables    weights, optimizer state and other state, as they lie
//   sums         what adds up over micro-batches, as it lies; it lasts from the first to the last
//   activations  what forward nodes make and backward nodes read, once in each type in which they read it; of one
//                micro-batch: how many are in flight is decided later, with the schedule. What backward computes again
//                is not held for the gradients of the same piece
//   copies       what variables are boxed to for their readers: gathered weights live as long as the step's readers
//
// What lives within one part of the step alone (gradients of a step of one micro-batch, workspaces, what is in
// transfer) is not counted; the plan says what all of that needs in the end (plan/memory.h).
#pragma once

#include "compiler/select/memory_limit.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"

namespace oneflow {

// Of variables alone. `demand` has sizes and places; what is made and read is added to it.
MemoryDemand VariableDemand(const Graph& graph, const OpRegistry& ops, const SearchProblem& problem,
                            MemoryDemand demand);
// Of all four kinds. `recomputed`: by node the piece that is computed again, -1: none; empty: nothing is.
MemoryDemand WholeDemand(const Graph& graph, const OpRegistry& ops, const SearchProblem& problem,
                         const std::vector<int>& recomputed, MemoryDemand demand);

}  // namespace oneflow
