// Boxing: changing a tensor from one (placement, SBP) to another, as a pure function to steps.
//
// A step lists for every destination rank the boxes that it reads, and their source ranks. Overlapping boxes are
// combined by the reduction, in the order listed. Elements that no box covers are zero (the rest of a P). Everything is
// slice intersection; collectives are special cases that a backend may recognise:
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

// The types on the path from `from` to `to`, ending with `to`; empty if they are equal. There are at most two on one
// host and four between hosts. The path takes the least predicted seconds, and of equal ones the fewest bytes. From
// addends of one reduction to addends of another (P(max) to P(sum)) it goes through the value itself, which takes more
// steps. A type on the path may lie on a smaller placement, or on one with reordered or factored axes (host_axes.h).
// Unimplemented if a type has addends of two reductions, InvalidArgument if one does not fit the shape.
absl::StatusOr<std::vector<DistType>> BoxingPath(const TensorType& type, const DistType& from, const DistType& to,
                                                 const Topology& topology);

// Whether one step does it: the errors of OneBoxingStep, without the step.
absl::Status CheckOneBoxingStep(const TensorType& type, const DistType& from, const DistType& to,
                                const Topology& topology);

// One step by slice intersection. If both placements have an axis, and no rank has two coordinates on it, a destination
// reads the copy at its own coordinate; so groups of ranks exchange nothing if nothing changes between them. Other
// copies are read from the nearest rank: the rank itself, then one of the same process, then of the same host, then the
// lowest index. Unimplemented for changes that need several steps: partial axes of different reductions, and a P that
// becomes new copies, which would sum every element once per copy.
absl::StatusOr<BoxingStep> OneBoxingStep(const TensorType& type, const DistType& from, const DistType& to,
                                         const Topology& topology);

// Bytes that cross from one rank's memory to another's, in total.
int64_t BytesMoved(const TensorType& type, const BoxingStep& step);
// Predicted seconds: the maximum of the slowest destination (its transfers one after another, alpha-beta per link) and
// the busiest host (the traffic of its ranks through all its network cards).
double Seconds(const TensorType& type, const BoxingStep& step, const Topology& topology);

// The sum of the prices (boxing_price.h) of all steps from `from` to `to`; infinity if there is no path. Not memoised.
double BoxingSeconds(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology);

}  // namespace oneflow
