// The share of each rank in a boxing where ranks cannot read one another's memory and therefore send.
//
// The ranks of a step fall into groups that exchange data. The part of a group is one call that all its members make,
// between copies that each makes by itself:
//
//   own shard ──pack──► to send ──────call──────► received ──unpack──► own shard of the result
//
//   all-gather       every member gives its shard, all of one size, to all      S->B
//   reduce-scatter   every member gets the sum of its part, all of one size     P->S
//   broadcast        one member gives its shard to two others or more
//   exchange         all other cases: each pair sends the boxes that the slices of both share
//
// An exchange is slice intersection and always works, with uneven shards and different placements too. The receiver
// adds the sums, in the order in which the copies of a step would, so the bits are the same. The other calls are taken
// where sizes allow. A copy is left out where the data to send or to receive is a whole shard. A part that involves no
// other rank is a copy alone.
//
// Ragged values always use exchanges, because the other calls take equal amounts from every rank: only the filled rows
// are sent. Rows of several groups are packed, one group behind the other.
#pragma once

#include <optional>
#include <vector>

#include "compiler/plan/copy_pieces.h"
#include "sbp/boxing_reads.h"

namespace oneflow {

enum class GroupCall : uint8_t { kNone, kReduceScatter, kAllGather, kBroadcast, kExchange };
const char* Name(GroupCall call);  // "none", "reduce-scatter", ... as in proto/plan.proto

// One transfer between two members of an exchange, in elements of the sent and of the received data.
struct PlannedTransfer {
  int peer = 0;  // position among the members
  int64_t send_offset = 0;
  int64_t send_count = 0;
  int64_t receive_offset = 0;
  int64_t receive_count = 0;
  Region send_box, receive_box;  // of ragged rows: the box in the shard, from its beginning
};

// One rank's share of a boxing step.
struct BoxingShare {
  GroupCall call = GroupCall::kNone;
  std::vector<int> members;                // ranks, in the order that defines the call
  std::vector<PlannedTransfer> transfers;  // of an exchange
  bool sends = false;                      // the call reads packed data, else the own shard
  bool receives = false;                   // the call writes data to unpack, else the result
  int64_t packed = 0;                      // elements
  int64_t received = 0;                    // elements that await unpacking
  std::optional<CopyProgram> pack;         // reads the own shard
  std::optional<CopyProgram> unpack;       // writes the result; `source` 0 is the own shard, 1 the received data
  bool unpack_reads_shard = false;

  bool reads_shard() const { return pack.has_value() || (sends && packed == 0) || unpack_reads_shard; }
};

// The share of a rank, if it has one. All members of a call find the same, each from its own relations to others.
// `rows` is the dimension of ragged rows, or -1.
std::optional<BoxingShare> ShareOf(BoxingReads& reads, int rank, int rows = -1);

}  // namespace oneflow
