// The changes from one plan set to another, in words: `oneflow plan diff`.
//
//   plan 'train'
//     mesh: [dp=2]{0,1} -> [dp=4]{0,1,2,3}
//     values
//       f32[8,16] [dp=2]{0,1}(S(0)) -> f32[8,16] [dp=4]{0,1,2,3}(S(0)): 'add', 'h*/mlp/up/matmul' (4 alike) and 9 more
//     boxings
//       + f32[16,64] [dp=2]{0,1}(S(0)) to [dp=2]{0,1}(B), 12288 bytes a step: 'h*/mlp/up/gather' (4 alike)
//     moved per step: 0 -> 49152 bytes
//
// Things are the same if they have one name. Equal changes are told once, and names that differ only in numbers count
// as one there.
#pragma once

#include <string>

#include "oneflow_core/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Ranks and hosts; layouts of variables; per plan its mesh, layouts of values, boxings, actors by queue, slots, memory
// by purpose and bytes moved. "nothing changed" if the plan sets are equal; a line that says so if they differ only
// elsewhere. REQUIRES: CheckPlanSet is OK of both.
absl::StatusOr<std::string> PlanDiff(const pb::PlanSet& a, const pb::PlanSet& b);

}  // namespace oneflow
