// How long a scheduler waits for whom, and how much it takes on.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace oneflow {

struct SchedulerLimits {
  absl::Duration heartbeat = absl::Milliseconds(500);  // how often daemons are told to be heard
  absl::Duration lease = absl::Milliseconds(2500);  // five missed heartbeats; under the 3 s in which a loss is reported
  absl::Duration deaf = absl::Seconds(60);          // of all daemons of other machines, while none is heard
  std::string memory;                       // MemorySpace() of the scheduler, by which it knows who is on its machine
  absl::Duration pause = absl::Seconds(1);  // between two ticks: beyond it the scheduler itself did not run
  absl::Duration comeback = absl::Milliseconds(1500);  // of a daemon whose connection closed
  absl::Duration restart = absl::Seconds(10);  // of all daemons that ran something when the former scheduler ended
  absl::Duration grace = absl::Seconds(1);     // from a complaint to the death that explains it
  absl::Duration start = absl::Seconds(60);    // from placement to the last hello
  absl::Duration exit = absl::Seconds(10);     // from the end of a finished job to the last exit
  absl::Duration logs = absl::Seconds(5);      // for daemons to answer a query of logs
  int devices_per_user = 0;                    // that jobs of a user may have at a time; 0: all
  int queued = 10'000;                         // jobs in the queue
  // For workers to say what they wait for: they watch themselves for a third of a second, and ask threads for another.
  absl::Duration diagnosis = absl::Milliseconds(1500);
};

}  // namespace oneflow
