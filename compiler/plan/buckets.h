// Buckets: boxings that travel together, and where computing is cut so that they travel while it goes on.
//
//   backward   g9 g8 g7 │ g6 g5 g4 │ g3 g2 g1      gradients: cut where a bucket is full
//   boxing              ▼ 9 8 7    ▼ 6 5 4    ▼ 3 2 1
//
//   boxing     w1 w2 w3 ▼ w4 w5 w6 ▼ w7 w8 w9 ▼    copies of variables: cut before what reads a further bucket
//   forward               1  2  3  │ 4  5  6  │ 7  8  9
//
// Gradients fill a bucket in the order in which they are made, variables in the order in which they are first read,
// until what a rank gets of it takes kBucketTimes as long to move as a boxing takes to begin (alpha and beta of the
// slowest link on the way, and an act). Every tensor alone would cost more in messages than in bytes; all together
// would wait for the last, or be waited for by the first.
#pragma once

#include <vector>

#include "compiler/plan/precedence.h"
#include "oneflow_core/graph.h"
#include "sbp/topology.h"

namespace oneflow {

inline constexpr double kBucketTimes = 4;

struct Buckets {
  // By node: which bucket a boxing belongs to, and how many of its bucket's boxings come before it on its way. -1:
  // none.
  std::vector<int> bucket;
  std::vector<int> depth;
  // By node: whether it is a boxing of a gradient, made by backward nodes and read by nothing but updates, perhaps
  // through more boxings.
  std::vector<bool> gradient;
  // By bucket of gradients: the boxings that are first on their ways.
  std::vector<std::vector<NodeId>> gradients;
  // By node: how many cuts come before it. Between nodes of different numbers a chain ends.
  std::vector<int> segment;
};

// Adds to `order` that what is behind a cut comes after what is before it. All gradients of a way are one bucket if
// they are not to overlap with backward.
Buckets FillBuckets(const Graph& graph, const Topology& topology, bool overlaps_gradients, Precedence& order);

}  // namespace oneflow
