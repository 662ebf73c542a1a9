// The work of ranks in the boxings of a plan: the sources that a destination reads, the readers of a source and, where
// ranks send, the share of each. Computed per group of ranks, only for the ranks in question, and kept, because the
// boxings of a plan are few and repeat.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "compiler/plan/collectives.h"
#include "compiler/plan/copy_pieces.h"
#include "sbp/boxing_group.h"
#include "sbp/topology.h"

namespace oneflow {

// The boxing of one group of ranks. Indices are those of the group's own placements.
class GroupBoxing {
 public:
  // `rows` is the dimension of ragged rows, or -1.
  GroupBoxing(std::unique_ptr<BoxingReads> reads, int rows) : reads_(std::move(reads)), rows_(rows) {}

  const Placement& from() const { return reads_->from().placement; }
  const Placement& to() const { return reads_->to().placement; }
  Reduction reduction() const { return reads_->reduction(); }

  // The copies of a destination that reads the memory of its sources; `source` is an index into `sources`.
  struct Copies {
    std::vector<int> sources;  // in the order of their first piece
    CopyProgram program;
  };
  const Copies& CopiesOf(int destination);
  // The piece that a destination reads of one source, if any; looks at these two ranks only.
  std::optional<CopyPiece> PieceBetween(int destination, int source);
  // The destinations that read a source.
  const std::vector<int>& ReadersOf(int source);
  // The share of a rank, where ranks send; null if it has none.
  const BoxingShare* ShareOf(int rank);

 private:
  std::unique_ptr<BoxingReads> reads_;
  const int rows_;
  std::map<int, Copies> copies_;
  std::map<int, std::vector<int>> readers_;
  std::map<int, std::optional<BoxingShare>> shares_;
};

class BoxingShares {
 public:
  // Borrows the topology.
  explicit BoxingShares(const Topology& topology) : topology_(topology) {}

  // The boxing of the group of `rank`, which is in one of the placements. Errors of CheckOneBoxingStep.
  absl::StatusOr<GroupBoxing*> Find(const TensorType& type, const DistType& from, const DistType& to, int rank);

 private:
  using Key = std::tuple<int, std::vector<int64_t>, int, Placement, NdSbp, Placement, NdSbp>;

  const Topology& topology_;
  std::map<Key, std::unique_ptr<GroupBoxing>> known_;
};

}  // namespace oneflow
