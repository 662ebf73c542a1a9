// Which daemons run a job's processes: all at once or not at all (a gang).
//
// The plan says which processes lie on one host. Those go to one machine, since they share memory; a machine may have
// several daemons. Hosts of the plan go to different machines as long as there are any with room, and share one if not.
//
//   processes of hosts 2, 2, 1; 2 devices each; machines with 8, 2 + 2 and 1 free devices
//   host 0 -> the first, host 1 -> the second, one process for each daemon, host 2 -> the first: the third has no room
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace oneflow {

// What the daemons of a machine have, in devices.
using Machine = std::vector<int>;

// A job's shape.
struct Gang {
  std::vector<int> processes_of_host;  // of the plan's, in order; at least one process each
  int devices_per_process = 1;
};

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

// Which devices the numbers of a Machine are: all of the daemons', or those that no job has.
enum class Devices { kOffered, kFree };

// Why PlaceGang() places nothing there, with both numbers: "host 1 of the plan takes 4 cpu devices; no machine offers
// more than 2". `device`: "cpu" or "cuda".
std::string WhatLacks(absl::Span<const Machine> machines, const Gang& gang, absl::string_view device, Devices counted);

}  // namespace oneflow
