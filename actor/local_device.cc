#include "actor/local_device.h"

#include <set>

namespace oneflow {

absl::StatusOr<Device> LocalDevice(const pb::Program& program, int rank) {
  OF_ASSIGN_OR_RETURN(const Device own, Device::Parse(program.ranks(rank).device()));
  std::set<int> before;
  for (const pb::Rank& other : program.ranks()) {
    if (other.process() != program.ranks(rank).process()) continue;
    OF_ASSIGN_OR_RETURN(const Device device, Device::Parse(other.device()));
    if (device.kind == own.kind && device.index < own.index) before.insert(device.index);
  }
  return Device{.kind = own.kind, .index = static_cast<int>(before.size())};
}

}  // namespace oneflow
