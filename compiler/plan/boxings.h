// The sizes of boxings that planning needs, without looking at every rank.
//
// On cpu devices a destination reads the memory of its sources. On others, ranks send: each has a share of the boxing
// (collectives.h), and reads and writes its own memory only.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "compiler/plan/share_bounds.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "sbp/boxing_reads.h"
#include "sbp/place_pairs.h"
#include "sbp/topology.h"

namespace oneflow {

class Boxings {
 public:
  // Borrows the topology. Not thread-safe: it keeps what it has found.
  Boxings(const Topology& topology, DeviceKind device)
      : topology_(topology), by_sending_(device != DeviceKind::kCpu), pairs_(topology) {}

  // Ranks do not access one another's memory.
  bool by_sending() const { return by_sending_; }
  // Whether a rank may read the memory of another rank, or of another process of its host. REQUIRES: `node` is a
  // boxing.
  bool ReadsOtherRanks(const Graph& graph, const Node& node) const;
  bool SharesAmongProcesses(const Graph& graph, const Node& node) const;
  // An upper bound, in bytes, of what any rank receives from other hosts, with the gaps between parcels. It looks at
  // each rank and at its host once. Errors of CheckOneBoxingStep. REQUIRES: `node` is a boxing.
  absl::StatusOr<int64_t> LandedBytes(const Graph& graph, const Node& node);
  // In bytes. Errors of CheckOneBoxingStep. REQUIRES: `node` is a boxing.
  absl::StatusOr<SendBuffers> BuffersOf(const Graph& graph, const Node& node);

 private:
  // Pair of places, element type, dimensions, the ragged one, and both layouts. Stages and layers that look alike are
  // computed once.
  using Key = std::tuple<int, DType, std::vector<int64_t>, int, NdSbp, NdSbp>;

  Key KeyOf(const Value& from, const Value& to);

  const Topology& topology_;
  const bool by_sending_;
  PlacePairs pairs_;
  std::map<Key, SendBuffers> known_;
  std::map<Key, int64_t> landed_;
};

}  // namespace oneflow
