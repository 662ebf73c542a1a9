#include "tools/control/scheduler/placement.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace oneflow {
namespace {

int64_t ProcessesByMemory(const Machine& machine, const Gang& gang) {
  if (gang.device_bytes > machine.device_bytes) return 0;
  if (gang.process_bytes == 0 || machine.memory_bytes == kUnknownBytes) return kUnknownBytes;
  return machine.memory_bytes / gang.process_bytes;
}

// How many processes a machine takes.
int64_t Room(const Machine& machine, const Gang& gang) {
  return std::min(ProcessesByDevices(machine, gang.devices_per_process), ProcessesByMemory(machine, gang));
}

std::string Gigabytes(double bytes) { return absl::StrFormat("%.1f GB", bytes * 1e-9); }

// Gives each host of a gang a machine, the largest first: what has room for a larger host has room for a smaller one.
class HostSearch {
 public:
  HostSearch(absl::Span<const Machine> machines, const Gang& gang) : sizes_(gang.processes_of_host) {
    for (const Machine& machine : machines) rooms_.push_back(Room(machine, gang));
    hosts_on_.assign(machines.size(), 0);
    order_.resize(sizes_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [this](int a, int b) { return sizes_[a] > sizes_[b]; });
    machine_of_host_.assign(sizes_.size(), -1);
  }

  // The machine of each host; empty if none was found.
  std::vector<int> Run() {
    if (Fits() && Place(0)) return machine_of_host_;
    return {};
  }

 private:
  // A thousand: the scheduler waits meanwhile, and a step looks at every machine. Hosts that are alike take none.
  static constexpr int kMostStepsBack = 1000;

  // Whether the hosts of every size and above would find room if all of them had that size: necessary, and enough for
  // hosts that are alike. Without it a search would go through all placements of a gang that is one host too large.
  bool Fits() const {
    for (size_t i = 0; i < order_.size(); ++i) {
      int64_t room = 0;
      for (const int64_t processes : rooms_) room += processes / sizes_[order_[i]];
      if (room < static_cast<int64_t>(i) + 1) return false;
    }
    return true;
  }

  // The hosts from the `next` in order on. Machines that are alike up to now are tried once.
  bool Place(size_t next) {
    if (next == order_.size()) return true;
    const int host = order_[next], size = sizes_[host];
    std::set<std::pair<int, int64_t>> tried;
    for (const int machine : Candidates(size)) {
      if (!tried.insert({hosts_on_[machine], rooms_[machine]}).second) continue;
      rooms_[machine] -= size, ++hosts_on_[machine], machine_of_host_[host] = machine;
      if (Place(next + 1)) return true;
      rooms_[machine] += size, --hosts_on_[machine];
      if (++steps_back_ > kMostStepsBack) return false;
    }
    return false;
  }

  // Machines with room, those with the fewest hosts of this gang first.
  std::vector<int> Candidates(int size) const {
    std::vector<int> machines;
    for (size_t i = 0; i < rooms_.size(); ++i) {
      if (rooms_[i] >= size) machines.push_back(i);
    }
    std::stable_sort(machines.begin(), machines.end(), [this](int a, int b) { return hosts_on_[a] < hosts_on_[b]; });
    return machines;
  }

  const std::vector<int>& sizes_;  // processes by host
  std::vector<int64_t> rooms_;     // processes by machine
  std::vector<int> hosts_on_;      // by machine
  std::vector<int> order_;         // hosts, the largest first
  std::vector<int> machine_of_host_;
  int steps_back_ = 0;
};

// A host's processes on a machine with room for them: in every round each daemon with room takes one more. Takes their
// devices.
//
//   free devices 4, 2, 4; 4 processes of 2 devices:   rounds give 2, 1, 1   ->  processes 0 1 | 2 | 3
std::vector<int> Spread(std::vector<int>& devices, int processes, int devices_per_process) {
  std::vector<int> count(devices.size(), 0);
  while (processes > 0) {
    for (size_t i = 0; i < devices.size() && processes > 0; ++i) {
      if (devices[i] < devices_per_process) continue;
      devices[i] -= devices_per_process;
      ++count[i], --processes;
    }
  }
  std::vector<int> daemons;
  for (size_t i = 0; i < count.size(); ++i) daemons.insert(daemons.end(), count[i], i);
  return daemons;
}

// Which bytes are short, if these are: of a device, or of a machine for the gang's largest host.
std::string WhatBytesLack(absl::Span<const Machine> machines, const Gang& gang, int largest, bool offered) {
  int64_t device = 0, memory = 0;
  for (const Machine& machine : machines) {
    device = std::max(device, machine.device_bytes), memory = std::max(memory, machine.memory_bytes);
  }
  const char* const has = offered ? " offers more than " : " has more than ";
  const char* const free = offered ? "" : " free";
  if (gang.device_bytes > device) {
    return absl::StrCat("the plan takes ", Gigabytes(gang.device_bytes), " of a device's memory; no device", has,
                        Gigabytes(device));
  }
  const double wanted = static_cast<double>(gang.process_bytes) * gang.processes_of_host[largest];
  if (wanted <= static_cast<double>(memory)) return "";
  return absl::StrCat("host ", largest, " of the plan takes ", Gigabytes(wanted), " of memory; no machine", has,
                      Gigabytes(memory), free);
}

}  // namespace

int64_t ProcessesByDevices(const Machine& machine, int devices_per_process) {
  int64_t processes = 0;
  for (const int devices : machine.devices) processes += devices / devices_per_process;
  return processes;
}

std::vector<DaemonIndex> PlaceGang(absl::Span<const Machine> machines, const Gang& gang) {
  const std::vector<int> machine_of_host = HostSearch(machines, gang).Run();
  std::vector<Machine> left(machines.begin(), machines.end());
  std::vector<DaemonIndex> placed;
  for (size_t host = 0; host < machine_of_host.size(); ++host) {
    const int machine = machine_of_host[host];
    for (const int daemon : Spread(left[machine].devices, gang.processes_of_host[host], gang.devices_per_process)) {
      placed.push_back({machine, daemon});
    }
  }
  return placed;
}

std::string WhatLacks(absl::Span<const Machine> machines, const Gang& gang, absl::string_view device, Devices counted) {
  if (machines.empty()) return "no daemon is registered";
  const std::vector<int>& sizes = gang.processes_of_host;
  const int64_t each = gang.devices_per_process;
  int64_t most = 0, all = 0, with_memory = 0;  // processes
  for (const Machine& machine : machines) {
    const int64_t processes = ProcessesByDevices(machine, gang.devices_per_process);
    most = std::max(most, processes), all += processes, with_memory += Room(machine, gang);
  }
  const auto takes = [&](int64_t processes) {
    return absl::StrCat(processes * each, " ", device, processes * each == 1 ? " device" : " devices",
                        each == 1 ? "" : absl::StrCat(", ", each, " for each process"));
  };
  const bool offered = counted == Devices::kOffered;
  const auto largest = std::max_element(sizes.begin(), sizes.end());
  if (most == 0 && each > 1) {  // whatever its machine has, a process is of one daemon
    return absl::StrCat("host ", largest - sizes.begin(), " of the plan takes ", takes(*largest), "; no daemon ",
                        offered ? "offers " : "has ", each, offered ? "" : " free");
  }
  if (*largest > most) {
    return absl::StrCat("host ", largest - sizes.begin(), " of the plan takes ", takes(*largest), "; no machine ",
                        offered ? "offers" : "has", " more than ", most * each, offered ? "" : " free");
  }
  if (std::string lacks = WhatBytesLack(machines, gang, largest - sizes.begin(), offered); !lacks.empty()) return lacks;
  const std::string have = machines.size() == 1 ? (offered ? " machine offers " : " machine has ")
                                                : (offered ? " machines offer " : " machines have ");
  return absl::StrCat("the plan's ", sizes.size(), " hosts take ",
                      takes(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})), "; ", machines.size(), have,
                      all * each, offered ? "" : " free",
                      with_memory < all ? absl::StrCat(" with memory for ", with_memory, " processes") : "",
                      ", and no host may lie on two");
}

}  // namespace oneflow
