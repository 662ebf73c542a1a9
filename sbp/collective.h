// Names the collective that a boxing step is. The name does not matter for correctness: a backend may run the pieces as
// they are.
#pragma once

#include "sbp/boxing.h"

namespace oneflow {

// On the same ranks, along the axes that change:
//
//   P->S reduce-scatter    S->B all-gather    S->S all-to-all    P->B all-reduce (as two steps, never one)
//
// Otherwise: `local` if no rank reads another's memory; `broadcast` if every destination reads its whole shard
// from one source, and some source serves several; kNone otherwise.
Collective RecogniseCollective(const Shape& shape, const BoxingStep& step);

// The collective of changing `before` to `after` along one axis; kNone if there is no name for it.
Collective CollectiveOf(const Sbp& before, const Sbp& after);

}  // namespace oneflow
