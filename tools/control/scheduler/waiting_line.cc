#include "tools/control/scheduler/waiting_line.h"

#include <algorithm>
#include <cstdint>

namespace oneflow {
namespace {

// Whether so many devices may be free, by number: as many as are now, and any sum of what runs there beside them.
std::vector<bool> Reachable(const HeldDevices& daemon) {
  std::vector<bool> sums(daemon.offered + 1, false);
  sums[std::max(daemon.free, 0)] = true;
  for (const int ends : daemon.held) {
    for (int sum = daemon.offered; sum >= ends; --sum) {
      if (sums[sum - ends]) sums[sum] = true;
    }
  }
  return sums;
}

}  // namespace

// A daemon holds as many processes of a job as `free / devices_per_process`, rounded down. What is left over in each of
// the cases that may come is of no use to the job.
Spares SparesOf(const std::map<SessionId, HeldDevices>& daemons, int devices_per_process) {
  Spares spares;
  for (const auto& [session, daemon] : daemons) {
    const std::vector<bool> sums = Reachable(daemon);
    int& spare = spares[session] = static_cast<int>(sums.size());
    for (size_t sum = 0; sum < sums.size(); ++sum) {
      if (sums[sum]) spare = std::min(spare, static_cast<int>(sum) % devices_per_process);
    }
  }
  return spares;
}

// Of memory what is left beside as many processes of the first job as a machine's devices could ever hold.
std::vector<Machine> FreeBehind(const Cluster& cluster, const std::vector<Machine>& offered, const Gang& first,
                                const Spares* spares) {
  std::vector<Machine> free = cluster.free;
  for (size_t machine = 0; machine < free.size(); ++machine) {
    for (size_t daemon = 0; spares != nullptr && daemon < free[machine].devices.size(); ++daemon) {
      int& devices = free[machine].devices[daemon];
      devices = std::min(devices, spares->at(cluster.session[machine][daemon]));
    }
    int64_t& bytes = free[machine].memory_bytes;
    if (bytes == kUnknownBytes || first.process_bytes == 0) continue;
    const int64_t processes = ProcessesByDevices(offered[machine], first.devices_per_process);
    bytes = processes > bytes / first.process_bytes ? 0 : bytes - processes * first.process_bytes;
  }
  return free;
}

}  // namespace oneflow
