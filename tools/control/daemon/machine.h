// What a daemon finds on its machine and tells the scheduler: nobody has to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/host_memory.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"

namespace oneflow {

// Where the system tells about itself; tests bring their own.
struct MachineFiles {
  HostFiles host;
  std::string sys = "/sys";
};

struct MachineFacts {
  int64_t memory_bytes = 0;            // that processes like this one may have; 0: the system does not say
  int memory_nodes = 1;                // parts of its memory that some cores are nearer to than others (NUMA)
  std::vector<pb::NetworkLink> links;  // that are up, by name; not the loopback
};
MachineFacts LookAtMachine(const MachineFiles& files = {});

struct CudaDevices {
  int count = 0;
  int64_t memory_bytes = 0;  // of the one that has least
};
// As the driver's `nvidia-smi` lists them; none where there is no such program. A process that asked CUDA would hold a
// context for as long as it lives. Unavailable with what it said if it fails or lists what is no list of devices.
absl::StatusOr<CudaDevices> FindCudaDevices();

}  // namespace oneflow
