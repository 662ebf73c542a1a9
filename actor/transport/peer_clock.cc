#include "actor/transport/peer_clock.h"

#include <unistd.h>

#include <fstream>

namespace oneflow {

// A booted kernel has one such clock for each of its time namespaces.
std::string SteadyClockName() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char space[64];
  const ssize_t length = readlink("/proc/self/ns/time", space, sizeof(space));
  if (boot.empty() || length <= 0) return "";
  return boot + " " + std::string(space, static_cast<size_t>(length));
}

}  // namespace oneflow
