// What a job may take that is not the first in line: pure functions of what daemons have and what runs there.
//
//   first waits for 4 devices         a daemon with 8: 3 free, jobs of 2 and 3 run
//   free may become, as jobs end      3, 5, 6, 8
//   of each, what 4 cannot use        3, 1, 2, 0         so nothing of it is for those behind
//
// Nobody knows which job ends next. A device is for those behind only if the first has no use for it whatever ends.
#pragma once

#include <map>
#include <vector>

#include "tools/control/scheduler/effects.h"
#include "tools/control/scheduler/placement.h"

namespace oneflow {

// What daemons have of one kind of device, by machine; `session` holds theirs in the same order.
struct Cluster {
  std::vector<Machine> offered, free;
  std::vector<std::vector<SessionId>> session;
};

// Of one daemon and one kind of device.
struct HeldDevices {
  int offered = 0, free = 0;
  std::vector<int> held;  // by each process that runs there
};

// How many of the devices that are free now are of no use to the first in line, whichever jobs end.
using Spares = std::map<SessionId, int>;
// REQUIRES: devices_per_process >= 1.
Spares SparesOf(const std::map<SessionId, HeldDevices>& daemons, int devices_per_process);

// What is free for a job behind the first, which is delayed by nothing. `cluster` is of the job's kind of devices,
// `offered` of the first's: the same machines. `spares`: null if the two are of different kinds.
std::vector<Machine> FreeBehind(const Cluster& cluster, const std::vector<Machine>& offered, const Gang& first,
                                const Spares* spares);

}  // namespace oneflow
