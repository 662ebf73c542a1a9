// Offsets: every zone of a rank is the variables, then the plan's registers, then (private zone) what is pinned and its
// workspace. All ranks of a class are laid out alike, with room for the largest shards.
//
//   private  | variables | registers: slots * stride each | pinned | workspace |
//   shared   | variables | registers                      |
//
// Plans of one job never run at the same time, so all of them start behind the variables; a zone is as large as its
// largest plan. One device executes one act at a time, so all acts of a rank share the workspace. Within an act the
// life of a value goes from the instruction that makes it to the last that reads it; lives that do not meet may share
// bytes.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "compiler/plan/physical_plan.h"

namespace oneflow {

struct Life {
  int64_t num_bytes = 0;
  int first = 0;  // instruction that writes it
  int last = 0;   // last instruction that touches it
};

struct Packing {
  std::vector<int64_t> offsets;
  int64_t num_bytes = 0;
  int64_t bound = 0;  // most bytes alive at one instruction
};

// Places the largest first, each at the lowest aligned offset where nothing alive at the same time lies.
Packing Pack(absl::Span<const Life> lives);

// Sets every offset of `plan`, and its `classes`. An output takes its input's place where the op allows it and that was
// the input's last use.
void AssignMemory(const PlanInput& input, PhysicalPlan& plan);

}  // namespace oneflow
