// What each rank does of a boxing where ranks cannot read one another's memory, and so have to send.
//
// The ranks of a step fall into groups that exchange something among themselves. A group's part of the step is one call
// that all its members make, between copies that each makes by itself:
//
//   own shard ──pack──► to send ──────call──────► received ──unpack──► own shard of the result
//
//   all-gather       every member gives its shard, all of one size, to all      S->B
//   reduce-scatter   every member gets the sum of its part, all of one size     P->S
//   broadcast        one member gives its shard to two others or more
//   exchange         whatever else: each pair sends the boxes that the slices of both share
//
// An exchange is slice intersection and always works, uneven shards and foreign placements included; sums are made by
// the receiver, in the order in which the copies of a step would make them, so that the result is bitwise theirs. The
// other calls are taken where sizes allow. A copy is left out where what is sent or received lies in the shard as it
// is. What involves no other rank is a copy alone.
//
// Of ragged rows those that are filled are sent, how many they are. No other call can do that: they take as much from
// every rank. So their boxings are exchanges, and rows of several groups are packed, one behind the other.
#pragma once

#include <optional>
#include <vector>

#include "compiler/plan/copy_pieces.h"
#include "sbp/boxing_reads.h"

namespace oneflow {

enum class GroupCall : uint8_t { kNone, kReduceScatter, kAllGather, kBroadcast, kExchange };
const char* Name(GroupCall call);  // "none", "reduce-scatter", ... as in proto/plan.proto

// Between two members of an exchange, in elements of what is sent and of what is received.
struct PlannedTransfer {
  int peer = 0;  // position among the members
  int64_t send_offset = 0;
  int64_t send_count = 0;
  int64_t receive_offset = 0;
  int64_t receive_count = 0;
  Region send_box, receive_box;  // of ragged rows: of what shard, counted from its beginning
};

// One rank's share of a boxing step.
struct BoxingShare {
  GroupCall call = GroupCall::kNone;
  std::vector<int> members;                // ranks, in the order that the call gives meaning to
  std::vector<PlannedTransfer> transfers;  // of an exchange
  bool sends = false;                      // the call reads: what was packed, else the own shard
  bool receives = false;                   // the call writes: what is unpacked, else the result
  int64_t packed = 0;                      // elements
  int64_t received = 0;                    // elements that await unpacking
  std::optional<CopyProgram> pack;         // reads the own shard
  std::optional<CopyProgram> unpack;       // writes the result; `source` 0 is the own shard, 1 what was received
  bool unpack_reads_shard = false;

  bool reads_shard() const { return pack.has_value() || (sends && packed == 0) || unpack_reads_shard; }
};

// The share of a rank, if it has one. Members of a call agree on it, each by looking at what it has to do with others
// itself. `rows` is the dimension of ragged rows, or -1.
std::optional<BoxingShare> ShareOf(BoxingReads& reads, int rank, int rows = -1);

}  // namespace oneflow
