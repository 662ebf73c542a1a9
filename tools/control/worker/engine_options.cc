#include "tools/control/worker/engine_options.h"

#include <algorithm>

namespace oneflow {

EngineOptions EngineOptionsOf(const pb::JobSpec& spec) {
  EngineOptions options;
  options.cores = std::max(1, spec.cores_per_process());
  options.profile = spec.profile();
  options.capture = !spec.uncaptured();
  options.trace_bytes = spec.trace_bytes();
  options.tier_folder = spec.offload_folder();
  options.emulated_ns_per_byte = spec.emulated_ms_per_mb();  // the same number
  if (spec.stall().seconds() > 0) options.stall_seconds = spec.stall().seconds();
  return options;
}

}  // namespace oneflow
