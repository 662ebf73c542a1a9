// Buckets: boxings that travel together, and the cuts of chains that let them travel while computing goes on.
//
//   backward   g9 g8 g7 │ g6 g5 g4 │ g3 g2 g1      gradients: cut where a bucket is full
//   boxing              ▼ 9 8 7    ▼ 6 5 4    ▼ 3 2 1
//
//   boxing     w1 w2 w3 ▼ w4 w5 w6 ▼ w7 w8 w9 ▼    copies of variables: cut before what reads a further bucket
//   forward               1  2  3  │ 4  5  6  │ 7  8  9
//
// Gradients fill a bucket in the order in which they are made, variables in the order in which they are first read. It
// is full when moving a rank's part takes kBucketTimes (sbp/boxing_price.h) as long as a boxing takes to begin (alpha
// and beta of the slowest link on the way, and an act). Single tensors would cost more in messages than in bytes; one
// bucket for all would wait for its last tensor, or delay its first reader. Boxings that are a unit already
// (Node::unit) are a bucket as they are.
#pragma once

#include <vector>

#include "compiler/plan/precedence.h"
#include "oneflow_core/graph.h"
#include "sbp/topology.h"

namespace oneflow {

struct Buckets {
  // By node: the bucket of a boxing, and how many boxings of that bucket precede it on its way. -1: none.
  std::vector<int> bucket;
  std::vector<int> depth;
  // By node: whether it is a boxing of a gradient: backward nodes make it and only updates, or sums over micro-batches,
  // read it, perhaps through more boxings.
  std::vector<bool> gradient;
  // By bucket of gradients: the first boxings of their ways.
  std::vector<std::vector<NodeId>> gradients;
  // By node: the number of cuts before it. A chain ends where this number changes.
  std::vector<int> segment;
};

// Adds to `order` that nodes behind a cut come after those before it. Without overlap with backward, all gradients of a
// way are one bucket.
Buckets FillBuckets(const Graph& graph, const Topology& topology, bool overlaps_gradients, Precedence& order);

}  // namespace oneflow
