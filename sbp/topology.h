// Links between the ranks of a job, as far as prices need them: alpha-beta (seconds + seconds per byte) by link class.
#pragma once

#include <cstdint>
#include <vector>

namespace oneflow {

struct Link {
  double alpha_s = 0;          // latency of one transfer
  double beta_s_per_byte = 0;  // 1 / bandwidth
};

// Which ranks share a process and a host, and what the links between them cost. A value; deterministic.
struct Topology {
  std::vector<int> process_of_rank;
  std::vector<int> host_of_rank;
  Link same_process{2e-6, 1.0 / 8e9};    // read in place, by a core that must fetch the lines
  Link same_host{30e-6, 1.0 / 8e9};      // shared memory; the control message crosses a socket
  Link between_hosts{60e-6, 1.0 / 1e9};  // a 10 Gbit/s network

  // REQUIRES: both ranks are known. A rank reads its own memory for nothing.
  Link Between(int a, int b) const {
    if (a == b) return {0, 0};
    if (process_of_rank[a] == process_of_rank[b]) return same_process;
    return host_of_rank[a] == host_of_rank[b] ? same_host : between_hosts;
  }
};

// `num_ranks` ranks in consecutive groups of `ranks_per_process` (the last may be smaller), all on one host.
// REQUIRES: ranks_per_process > 0.
Topology OneHost(int num_ranks, int ranks_per_process);

}  // namespace oneflow
