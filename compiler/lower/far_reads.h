// The data that ranks read of registers on other hosts, and the place where it lands.
//
// For each slot of such a register a reader is sent the boxes that it reads, one behind the other, into memory of its
// own: the landing of that register, with as many slots:
//
//   slot on rank 0, host 0           payload to actor 7 on rank 4         landing on rank 4, host 1
//   | w: 8x4 | b: 8 |                columns 2,3 of w | 4..7 of b         | payload | pad | payload | pad | ...
//
// A box of ragged rows has room for all of them; the filled ones are sent.
//
// Both ends find the same payloads, each from the plan's rules for the reading actor alone.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/lower/plan_boxings.h"
#include "compiler/lower/rank_outline.h"
#include "oneflow_core/status.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "sbp/slices.h"

namespace oneflow {

class FarReads {
 public:
  // Borrows all.
  explicit FarReads(PlanBoxings& boxings) : plan_(boxings.plan()), reader_(boxings.reader()), boxings_(boxings) {}

  // One box on its way.
  struct Parcel {
    int instruction = 0;  // of the reader
    int input = 0;        // of that: 0 the shard, 1 the counts of ragged rows
    pb::Parcel box;       // as it lies in the slot; the register of counts as the plan numbers it
    int64_t offset = 0;   // in the payload, a multiple of 8 bytes
  };
  struct Payload {
    std::vector<Parcel> parcels;
    int64_t num_bytes = 0;
    int64_t ragged_bytes = 0;  // of these, for ragged rows: only the filled ones are sent

    void Add(Parcel parcel);
    // REQUIRES: there is such a parcel.
    const Parcel& Of(int instruction, int input) const;
  };
  struct Landing {
    int reg = 0;
    int index = 0;       // of the register's rank in its grid
    int64_t offset = 0;  // in the actor's pinned memory
    int64_t slot_stride = 0;
    const Payload* payload = nullptr;
  };

  bool IsFar(int rank, int other) const { return reader_.topology().HostOf(rank) != reader_.topology().HostOf(other); }
  // The boxes that `reader` is sent of each slot of a register on rank `source`; empty if it reads nothing there. Lives
  // as long as this. REQUIRES: the rank is in the register's grid.
  absl::StatusOr<const Payload*> PayloadOf(const Instance& reader, int reg, int source);
  // The landings of all registers on other hosts that it reads, in a row. InvalidArgument if the plan has no room for
  // them. Lives until the next call.
  absl::StatusOr<const std::vector<Landing>*> LandingsOf(const Instance& reader);

 private:
  absl::Status AddParcels(const Instance& reader, int instruction, int reg, int source, Payload& out);
  pb::Parcel BoxOfShard(const CopyPiece& piece, const pb::ClassOperand& shard) const;
  pb::Parcel BoxOfCounts(const CopyPiece& piece, const pb::ClassInstruction& boxing, int source) const;
  Region ShardOfRows(const pb::ClassInstruction& boxing, int source) const;
  absl::Status AddRowCounts(const CopyPiece& piece, const pb::ClassInstruction& boxing, int source,
                            pb::Parcel& rows) const;
  absl::StatusOr<std::vector<int>> FarSources(const Instance& reader, int reg);

  const pb::ClassPlan& plan_;
  const PlanReader& reader_;
  PlanBoxings& boxings_;
  absl::flat_hash_map<std::tuple<int, int, int, int>, std::unique_ptr<Payload>> payloads_;
  std::vector<Landing> landings_;
};

// A box of ragged rows within a shard: its groups, and the place of their counts in a shard of counts; `rows` is the
// dimension of the rows, the stride that of dense tensors.
struct GroupBox {
  std::vector<int64_t> start, extent, stride;
  int64_t offset = 0;  // in elements
};
GroupBox GroupsOf(const CopyPiece& piece, const std::vector<int64_t>& shard_dims, int rows);

}  // namespace oneflow
