// The cost of a boxing step without its pieces. For every destination, arithmetic on coordinates (lattice.h) gives the
// bytes and transfers from each distance. The work is linear in ranks; pairs of ranks are never visited:
//
//   S(0) -> B on [dp=1024], hosts of 8     destination 0 has 1 part, reads 7 on its host, 1016 over the network
//
// A step takes as long as the slowest of
//
//   a destination      its transfers one after another, alpha and beta of their links
//   a host's cards     what the ranks of the host read from other hosts, or give to them, through all cards together
#pragma once

#include <cstdint>

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"
#include "sbp/boxing.h"
#include "sbp/topology.h"

namespace oneflow {

// Steps with the same source, destination and time travel together in buckets. A bucket is full when moving its bytes
// takes this many times the latency of a step.
inline constexpr double kBucketTimes = 4;

// The bytes of a full bucket on a rank, by the slowest link between the ends of the placements; 0: nothing travels, and
// none is full.
int64_t BucketBytes(const Placement& from, const Placement& to, const Topology& topology);

struct StepPrice {
  double seconds = 0;
  int64_t bytes = 0;  // in total, as BytesMoved says
};

// Up to 16 destinations are priced one by one. With more, only those at the ends of the axes are, because they hold the
// largest and the smallest parts; the largest price counts for all. The price is exact for even parts. For uneven parts
// the error is at most the difference between parts, which is one row each. Traffic between hosts is assumed to be
// spread evenly over the hosts that have data. REQUIRES: OneBoxingStep does it.
StepPrice PriceOf(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology);

}  // namespace oneflow
