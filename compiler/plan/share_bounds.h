// Bounds on the shares of ranks in a boxing (collectives.h), for the memory plan.
//
// ShareOf() finds the share of one rank by looking at every pair of ranks in its group, which a worker does for its own
// ranks. The memory plan needs the largest share of all ranks: these bounds look at each rank once, so that a boxing of
// 10^5 ranks takes seconds. test/compiler/plan/collectives_test.cc holds that no share exceeds them.
#pragma once

#include <cstdint>

#include "sbp/boxing_reads.h"

namespace oneflow {

// Scratch memory of a boxing by sending, on the rank that needs most.
struct SendBuffers {
  int64_t packed = 0;    // elements to send that do not lie in the shard as a whole
  int64_t received = 0;  // elements that await unpacking
};

// An upper bound, in elements, of what any rank's share of a boxing packs and receives. It exceeds the need only where
// splits are uneven, axes of other names cut a dimension likewise, or copies are taken by distance. `rows` is the
// dimension of ragged rows, or -1.
SendBuffers MostSent(BoxingReads& reads, int rows = -1);

}  // namespace oneflow
