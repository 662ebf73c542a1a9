// Bytes from rank to rank. Each pair has a channel for each direction; what happens on one is in order:
//
//   sender                      receiver
//   header of its call  ────►   header of its call  ────►  sender        both must say the same
//   data                ────►                                           not before
//
// so that nothing is sent which the other rank does not expect at this place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "test/support/cuda/nccl_communicator.h"

namespace oneflow::software_cuda {

enum class CallKind : int32_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kReceive };

// What ranks have to agree on.
struct CallHeader {
  CallKind kind = CallKind::kAllReduce;
  int32_t type = 0;
  int32_t reduction = 0;  // of reductions
  int32_t peer = 0;       // a broadcast's root; with whom to exchange
  uint64_t count = 0;
  int32_t in_group = 0, group_size = 1;  // of collectives: which of those that are launched together, and how many
};

// "all-reduce of 8 float32, sum".
std::string ToString(const CallHeader& header);

// To or from one rank.
struct Transfer {
  int peer = 0;
  bool sends = false;
  CallHeader mine;
  char* data = nullptr;
  size_t bytes = 0;

  CallHeader theirs = {};
  size_t num_said = 0, num_heard = 0;  // bytes of headers
  size_t num_moved = 0;
};

// Does them all at once, those of a channel in order. False if the communicator stops before, or another rank has made
// another call, which is reported. REQUIRES: on a stream's thread.
bool RunTransfers(Communicator& communicator, std::vector<Transfer>& transfers);

}  // namespace oneflow::software_cuda
