// The most memory that this process has held at once.
#pragma once

#include <cstdint>

namespace oneflow {

// Resident, shared memory included, since the process began its program or its peak was reset; 0 if nobody knows. What
// getrusage says may be of the process that forked it.
int64_t PeakBytes();

// Gives what is free back to the system, and forgets the peak so far.
void ResetPeak();

}  // namespace oneflow
