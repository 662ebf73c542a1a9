// Boxing: changing a tensor from one (placement, SBP) to another, as a pure function to steps.
//
// A step says for every destination rank which boxes it reads from which source ranks; boxes that overlap are combined
// by the reduction (in the order listed), what no box covers is zero (the rest of a P). Everything is slice
// intersection; collectives are special cases that a backend may recognise:
//
//   S(0)->B on [2], 4 rows      dst 0: rows 0-1 from 0, rows 2-3 from 1      all-gather, (p-1)T bytes in total
//                               dst 1: rows 0-1 from 0, rows 2-3 from 1
//   P->S(0) on [2]              dst 0: rows 0-1 from 0 + rows 0-1 from 1     reduce-scatter, (p-1)T
//   P->B    two steps, P->S(d)->B: 2(p-1)T, and every element is summed once, so that replicas are bitwise equal
//
// Axes of the two placements that have the same name and size match. Along a matching axis P->P keeps each rank's
// addend, S->P turns each slice into an addend that is zero elsewhere, B->P leaves the value to coordinate 0; for a
// P(max) or P(min) that was not one before, every rank holds the whole value. Along axes without a match a new P has
// its sum at coordinate 0.
//
// All partial axes of a step must have the same reduction: a sum of maxima is not a maximum of sums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"
#include "sbp/slices.h"
#include "sbp/topology.h"

namespace oneflow {

struct BoxingPiece {
  int source = 0;  // index into from.placement.ranks()
  Region region;   // logical coordinates; lies within the source's shard and the destination's shard
};

enum class Collective : uint8_t { kNone, kAllReduce, kReduceScatter, kAllGather, kAllToAll, kBroadcast, kLocal };
const char* Name(Collective collective);

struct BoxingStep {
  DistType from;
  DistType to;
  Reduction reduction = Reduction::kSum;         // how overlapping boxes combine
  std::vector<std::vector<BoxingPiece>> pieces;  // per index into to.placement.ranks()
  Collective collective = Collective::kNone;     // what it amounts to, for NCCL and for people
};

// The types on the way from `from` to `to`, ending with `to`; empty if they are equal: at most two on one host, four
// between hosts. The way is the one of least predicted seconds, and among these of fewest bytes. Between addends of two
// reductions (P(max) to P(sum)) the value itself is made, which takes more steps. A type in between may lie on a
// smaller placement, or one with reordered or factored axes (host_axes.h). Unimplemented if a type has addends of two
// reductions itself, InvalidArgument if one does not fit the shape.
absl::StatusOr<std::vector<DistType>> BoxingPath(const TensorType& type, const DistType& from, const DistType& to,
                                                 const Topology& topology);

// Whether one step does it: the errors of OneBoxingStep, without the step.
absl::Status CheckOneBoxingStep(const TensorType& type, const DistType& from, const DistType& to,
                                const Topology& topology);

// One step by slice intersection. Copies along an axis that both placements have, and on which no rank has two
// coordinates, are read at the own one, so that groups of ranks between which nothing changes have nothing to do with
// one another; elsewhere the nearest is: own rank, same process, same host, lowest index. Unimplemented for pairs that
// one step cannot do: partial axes of different reductions, and a P that ends in new copies, which would sum every
// element once per copy.
absl::StatusOr<BoxingStep> OneBoxingStep(const TensorType& type, const DistType& from, const DistType& to,
                                         const Topology& topology);

// Bytes that cross from one rank's memory to another's, in total.
int64_t BytesMoved(const TensorType& type, const BoxingStep& step);
// Predicted seconds: the slowest destination, its transfers one after another, alpha-beta per link; or the busiest
// host's network cards, what the host's ranks read or give through all of them.
double Seconds(const TensorType& type, const BoxingStep& step, const Topology& topology);

// Sum of Seconds over the path from `from` to `to`, as boxing_price.h has them; memoise outside. Infinity if there is
// no way.
double BoxingSeconds(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology);

}  // namespace oneflow
