// The memory of ranks in a step, as far as layouts decide it: the demand behind limits on memory.
//
//   variables    weights, optimizer state and other state, as they lie; not those that lie in a tier below the device's
//                memory
//   sums         sums over micro-batches, as they lie; they last from the first micro-batch to the last
//   activations  values that forward nodes make and backward nodes read, once in each type in which they are read, of
//                one micro-batch: the schedule decides later how many are in flight. Values that backward computes
//                again are not held for the gradients of the same piece
//   copies       boxed copies of variables for their readers: gathered weights live as long as the step's readers
//
// Memory that lives within one part of the step (gradients of a step of one micro-batch, workspaces, data in transfer)
// is not counted; the plan says what all of that needs in the end (plan/memory.h).
#pragma once

#include "compiler/select/memory_limit.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"

namespace oneflow {

// Of variables alone. `demand` has sizes and places; made and read values are added to it.
MemoryDemand VariableDemand(const Graph& graph, const OpRegistry& ops, const SearchProblem& problem,
                            MemoryDemand demand);
// Of all four kinds. `recomputed`: by node the piece that is computed again, -1: none; empty: no recomputation.
MemoryDemand WholeDemand(const Graph& graph, const OpRegistry& ops, const SearchProblem& problem,
                         const std::vector<int>& recomputed, MemoryDemand demand);

}  // namespace oneflow
