#include "sbp/topology.h"

namespace oneflow {

Topology OneHost(int num_ranks, int ranks_per_process) {
  Topology topology;
  topology.host_of_rank.assign(num_ranks, 0);
  topology.process_of_rank.resize(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) topology.process_of_rank[rank] = rank / ranks_per_process;
  return topology;
}

}  // namespace oneflow
