// Stands in for nccl_collectives.cc where the CUDA toolkit was not found.
#include "actor/collective/nccl_collectives.h"

namespace oneflow {

absl::StatusOr<std::unique_ptr<Collectives>> MakeNcclCollectives(const pb::Program&, int, PeerNetwork*,
                                                                 absl::Duration) {
  return absl::UnimplementedError("this build has no NCCL: the CUDA toolkit was not found when it was configured");
}

}  // namespace oneflow
