// What ranks do in the boxings of a plan: which sources a destination reads, who reads a source, and where ranks send, each one's
// share. Found per group of ranks and kept, because the boxings of a plan are few and repeat.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "compiler/plan/collectives.h"
#include "compiler/plan/copy_pieces.h"
#include "sbp/boxing_group.h"
#include "sbp/topology.h"

namespace oneflow {

// A boxing as the ranks of one group do it. Indices are those of the group's own placements.
struct GroupBoxing {
  BoxingGroup group;
  BoxingStep step;
  std::vector<std::vector<int>> sources;  // per destination, in the order of their first piece
  std::vector<std::vector<int>> readers;  // per source, the destinations that read it
  std::map<int, BoxingShare> shares;      // by rank; only where ranks send
};

class BoxingShares {
 public:
  // Borrows the topology.
  explicit BoxingShares(const Topology& topology) : topology_(topology) {}

  // The boxing of the group of `rank`, which is in one of the placements. Errors of OneBoxingStep.
  absl::StatusOr<const GroupBoxing*> Find(const TensorType& type, const DistType& from, const DistType& to, int rank,
                                          bool by_sending);

 private:
  using Key = std::tuple<int, std::vector<int64_t>, Placement, NdSbp, Placement, NdSbp, bool>;

  const Topology& topology_;
  std::map<Key, std::unique_ptr<GroupBoxing>> known_;
};

}  // namespace oneflow
