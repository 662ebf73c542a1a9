// Which daemons run a job's processes: all at once or not at all (a gang).
//
// The plan says which processes lie on one host. Those go to one machine, since they share memory; a machine may have
// several daemons. Hosts of the plan go to different machines as long as there are any with room, and share one if not.
//
//   processes of hosts 2, 2, 1; 2 devices each; machines with 8, 2 + 2 and 1 free devices
//   host 0 -> the first, host 1 -> the second, one process for each daemon, host 2 -> the first: the third has no room
//
// A process also takes memory of its machine, which all daemons there share, as much as its plan says.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace oneflow {

inline constexpr int64_t kUnknownBytes = std::numeric_limits<int64_t>::max();

// What the daemons of a machine have.
struct Machine {
  std::vector<int> devices;              // by daemon
  int64_t memory_bytes = kUnknownBytes;  // of the machine
  int64_t device_bytes = kUnknownBytes;  // of each device, where devices have memory of their own
};

// A job's shape.
struct Gang {
  std::vector<int> processes_of_host;  // of the plan's, in order; at least one process each
  int devices_per_process = 1;
  int64_t process_bytes = 0;  // the most memory of its machine that a process takes
  int64_t device_bytes = 0;   // the most that one of its devices takes, if these have memory of their own
};

// How many processes of a gang a machine takes by its devices: none lies on two daemons.
int64_t ProcessesByDevices(const Machine& machine, int devices_per_process);

// One of a machine's daemons.
struct DaemonIndex {
  int machine = 0, daemon = 0;
  bool operator==(const DaemonIndex&) const = default;
};

// For each process, hosts in order, its daemon; empty if they do not all fit. Machines are preferred in their order.
// Where all hosts are alike a placement is found if there is one; where they differ, after a bounded search.
// Within a machine processes spread over its daemons, as many as possible, and are numbered consecutively on each.
// REQUIRES: devices_per_process >= 1.
std::vector<DaemonIndex> PlaceGang(absl::Span<const Machine> machines, const Gang& gang);

// Which devices and bytes the numbers of a Machine are: all of the daemons', or those that no job has.
enum class Devices { kOffered, kFree };

// Why PlaceGang() places nothing there, with both numbers: "host 1 of the plan takes 4 cpu devices; no machine offers
// more than 2", "host 0 of the plan takes 30.1 GB of memory; no machine offers more than 24.0 GB". `device`: "cpu" or
// "cuda".
std::string WhatLacks(absl::Span<const Machine> machines, const Gang& gang, absl::string_view device, Devices counted);

}  // namespace oneflow
