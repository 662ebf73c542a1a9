// Job specs that the scheduler accepts, around plans that do nothing.
#pragma once

#include "proto/control.pb.h"

namespace oneflow::testing {

// One plan named "train" with a rank per cpu device, run for one step. REQUIRES: `hosts` divides `processes`.
pb::JobSpec EmptyJob(int processes, int devices_per_process, int hosts = 1);

}  // namespace oneflow::testing
