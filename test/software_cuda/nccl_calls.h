// Every call of NCCL with every type, checked by one rank: all ranks do the same, as threads or as processes.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

namespace oneflow::software_cuda {

// What came out wrong, on the thread's current device. REQUIRES: the other ranks call it too.
std::vector<std::string> WrongResults(int num_ranks, int rank, ncclComm_t comm);

}  // namespace oneflow::software_cuda
