#include "tools/scheduler/placement.h"

#include <cstddef>

namespace oneflow {

std::vector<int> PlaceGang(absl::Span<const int> free_devices, int processes, int devices_per_process) {
  std::vector<int> count(free_devices.size(), 0);
  int placed = 0;
  bool progress = true;
  while (placed < processes && progress) {
    progress = false;
    for (size_t i = 0; i < count.size() && placed < processes; ++i) {
      if (free_devices[i] / devices_per_process <= count[i]) continue;
      ++count[i], ++placed;
      progress = true;
    }
  }
  if (placed < processes) return {};
  std::vector<int> daemon_of_process;
  for (size_t i = 0; i < count.size(); ++i) daemon_of_process.insert(daemon_of_process.end(), count[i], i);
  return daemon_of_process;
}

}  // namespace oneflow
