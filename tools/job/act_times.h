// What the acts of a trace take.
#pragma once

#include <map>

#include "actor/trace/trace.h"
#include "oneflow_core/status.h"

namespace oneflow {

// The median of the seconds of each actor's acts, of those actors of a plan that acted. InvalidArgument if the acts of
// the trace's ranks are launches, which say nothing of what the device took.
absl::StatusOr<std::map<int, double>> MedianSeconds(const Trace& trace, int plan);

}  // namespace oneflow
