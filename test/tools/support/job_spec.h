// Job specs that the scheduler accepts, around plans that do nothing.
#pragma once

#include <cstdint>
#include <string>

#include "proto/control.pb.h"

namespace oneflow::testing {

// One plan named "train" with a rank per cpu device, run for one step. `rank_bytes`: of its memory, that a rank says it
// takes. REQUIRES: `hosts` divides `processes`.
pb::JobSpec EmptyJob(int processes, int devices_per_process, int hosts = 1, int64_t rank_bytes = 0);

// The layout of `smaller` becomes the last fallback of `spec`, under this name.
void AddFallback(const pb::JobSpec& smaller, const std::string& layout, pb::JobSpec& spec);

}  // namespace oneflow::testing
