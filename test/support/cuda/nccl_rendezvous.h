// How the ranks of a communicator find one another.
//
//   the process that made the id          every rank
//   root: a thread that listens    ◄──── introduces itself: rank, device, where it listens
//   all are there: the table       ────► connects to every lower rank, is called by every higher one
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

#include "test/support/cuda/nccl_sockets.h"

namespace oneflow::software_cuda {

// To another rank. What is read from `send` and written to `receive` are only the headers of calls.
struct Link {
  Socket control;
  Socket send;     // data of this rank
  Socket receive;  // data of the other
};

// Starts a root; it lives until its ranks have met or the process ends.
ncclResult_t MakeId(ncclUniqueId* id);

struct Membership {
  int num_ranks = 0, rank = 0;
  int physical_device = 0;
};

// Waits for all ranks; then a link to each, by rank, none to itself. Errors as ncclCommInitRank says, with what to say
// of them in `error`; ncclSystemError if the gate opens first.
ncclResult_t Meet(const ncclUniqueId& id, const Membership& self, const Gate& gate, std::vector<Link>* links,
                  std::string* error);

}  // namespace oneflow::software_cuda
