// What a boxing step costs, without its pieces: for every destination bytes and transfers by how far they come, from
// arithmetic on coordinates (lattice.h). Ranks are looked at once, pairs of ranks never:
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

// Steps that go the same way at the same time travel together, in buckets. A bucket is full when moving its bytes takes
// so many times as long as a step takes to begin.
inline constexpr double kBucketTimes = 4;

struct StepPrice {
  double seconds = 0;
  int64_t bytes = 0;  // in total, as BytesMoved says
};

// Up to 16 destinations are looked at one by one; of more only those at the ends of the axes, which hold the largest
// and the smallest parts, and the largest price counts for all. So where parts are even the price is that of the step;
// where they are not it is off by no more than parts differ, one row each. What leaves a host is taken to be spread
// evenly over the hosts that have something to give. REQUIRES: OneBoxingStep does it.
StepPrice PriceOf(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology);

}  // namespace oneflow
