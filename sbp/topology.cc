#include "sbp/topology.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// Far beyond any cluster, and far below what an int holds.
constexpr int64_t kMostDevices = int64_t{1} << 31;
constexpr size_t kMostGroups = 64;

std::string NameOf(size_t group) { return absl::StrCat("hosts of group ", group); }

absl::Status CheckGroup(const HostGroup& group) {
  const std::pair<const char*, int64_t> kPositive[] = {{"count", group.count}, {"devices", group.devices}};
  for (const auto& [what, value] : kPositive) {
    if (value < 1) return absl::InvalidArgumentError(absl::StrCat(what, " ", value, " is not positive"));
  }
  if (group.devices > kMostDevices / group.count) {
    return absl::InvalidArgumentError(
        absl::StrCat(group.count, " hosts of ", group.devices, " devices are more than 2^31 devices"));
  }
  for (const Nics& nics : group.nics) {
    if (nics.count < 1 || !(nics.link.alpha_s >= 0) || !(nics.link.beta_s_per_byte > 0) ||
        !std::isfinite(nics.link.alpha_s) || !std::isfinite(nics.link.beta_s_per_byte)) {
      return absl::InvalidArgumentError(absl::StrCat(nics.count, " ", nics.link_class, " cards of ", nics.link.alpha_s,
                                                     " s and ", nics.link.beta_s_per_byte,
                                                     " s per byte are no cards at all"));
    }
  }
  return absl::OkStatus();
}

// The fastest class that two groups have in common, all cards together.
const Nics* FastestCommon(const HostGroup& a, const HostGroup& b, int& cards) {
  const Nics* best = nullptr;
  double best_rate = 0;
  for (const Nics& mine : a.nics) {
    for (const Nics& theirs : b.nics) {
      if (mine.link_class != theirs.link_class) continue;
      const Nics& slower = mine.link.beta_s_per_byte < theirs.link.beta_s_per_byte ? theirs : mine;
      const int both = std::min(mine.count, theirs.count);
      const double rate = both / slower.link.beta_s_per_byte;
      if (rate > best_rate) best = &slower, best_rate = rate, cards = both;
    }
  }
  return best;
}

}  // namespace

double ShareAt(const std::vector<Efficiency>& table, double size) {
  const auto above = std::upper_bound(table.begin(), table.end(), size,
                                      [](double value, const Efficiency& row) { return value < row.from; });
  return above == table.begin() ? 1 : std::prev(above)->share;
}

absl::StatusOr<Nics> NicsOfClass(absl::string_view link_class) {
  constexpr double kNetworkStep = 9.6e-6;  // of NCCL's model (src/graph/tuning.cc, ring, Simple)
  // Nominal rates of one card, and the time from a message sent to a small transfer done.
  if (link_class == "ethernet") return Nics{"ethernet", 1, {60e-6, 8 / 10e9}};  // 10 Gbit/s, through the kernel's TCP
  if (link_class == "roce") return Nics{"roce", 1, {kNetworkStep, 8 / 200e9}};  // 200 Gbit/s, RDMA
  if (link_class == "infiniband") return Nics{"infiniband", 1, {kNetworkStep, 8 / 400e9}};  // NDR, 400 Gbit/s, RDMA
  return absl::InvalidArgumentError(
      absl::StrCat("'", link_class, "' is none of the link classes 'ethernet', 'roce', 'infiniband'"));
}

absl::StatusOr<Topology> Topology::Create(int num_ranks, int ranks_per_process, std::vector<HostGroup> hosts) {
  if (num_ranks < 1 || ranks_per_process < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_ranks, " ranks in processes of ", ranks_per_process, ": both must be positive"));
  }
  if (hosts.empty()) return absl::InvalidArgumentError("there are no hosts");
  if (hosts.size() > kMostGroups) {
    return absl::InvalidArgumentError(absl::StrCat(hosts.size(), " groups of hosts, at most ", kMostGroups,
                                                   " are supported; give like hosts a count"));
  }
  Topology topology;
  topology.ranks_per_process_ = ranks_per_process;
  topology.groups_ = std::move(hosts);
  OF_RETURN_IF_ERROR(topology.Place(num_ranks));
  OF_RETURN_IF_ERROR(topology.CheckProcesses());
  OF_RETURN_IF_ERROR(topology.Connect());
  topology.device_ = topology.groups_[0].device;
  for (const HostGroup& group : topology.groups_) {
    if (group.device.f32_flops < topology.device_.f32_flops) topology.device_ = group.device;
  }
  return topology;
}

// Gives the groups their ranks and forgets those that get none.
absl::Status Topology::Place(int num_ranks) {
  int64_t devices = 0, hosts = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    HostGroup& group = groups_[i];
    OF_RETURN_IF_ERROR_AT(CheckGroup(group), NameOf(i));
    if (group.nics.empty()) group.nics.push_back(*NicsOfClass("ethernet"));
    if (devices < num_ranks) {
      placed_.push_back({static_cast<int>(devices), static_cast<int>(hosts),
                         static_cast<int>(std::min<int64_t>(group.devices, std::numeric_limits<int>::max()))});
    }
    devices += group.count * group.devices;
    hosts += group.count;
    if (devices > kMostDevices) {
      return absl::InvalidArgumentError(absl::StrCat("the hosts have ", devices, " devices, more than 2^31"));
    }
  }
  if (devices < num_ranks) {
    return absl::InvalidArgumentError(absl::StrCat("the job has ", num_ranks, " ranks, but the ", hosts,
                                                   hosts == 1 ? " host has " : " hosts have ", devices, " devices"));
  }
  groups_.resize(placed_.size());
  num_ranks_ = num_ranks;
  return absl::OkStatus();
}

// A process lies on one host: of all hosts but the last in use the devices must divide among processes.
absl::Status Topology::CheckProcesses() const {
  const int last = HostOf(num_ranks_ - 1);
  for (size_t i = 0; i < groups_.size(); ++i) {
    const bool only_last = placed_[i].first_host == last;
    if (only_last || groups_[i].devices % ranks_per_process_ == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(NameOf(i), ": ", groups_[i].devices,
                                                   " devices do not divide among processes of ", ranks_per_process_,
                                                   ", and a process cannot lie on two hosts"));
  }
  return absl::OkStatus();
}

absl::Status Topology::Connect() {
  for (size_t a = 0; a < groups_.size(); ++a) {
    for (size_t b = 0; b < groups_.size(); ++b) {
      int cards = 1;
      const Nics* const nics = FastestCommon(groups_[a], groups_[b], cards);
      if (nics == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat(NameOf(a), " and ", NameOf(b), " have no class of network cards in common"));
      }
      wires_.push_back({nics->link, nics->link.beta_s_per_byte / cards});
      alike_cards_ = alike_cards_ && wires_.back().link.alpha_s == wires_.front().link.alpha_s &&
                     wires_.back().link.beta_s_per_byte == wires_.front().link.beta_s_per_byte &&
                     wires_.back().host_beta == wires_.front().host_beta;
    }
  }
  return absl::OkStatus();
}

std::pair<int, int> Topology::RanksWithin(Distance distance, int rank) const {
  if (distance == Distance::kSelf) return {rank, rank + 1};
  if (distance == Distance::kNetwork) return {0, num_ranks_};
  const Placed& placed = PlacedOf(rank);
  const int first = distance == Distance::kProcess ? rank / ranks_per_process_ * ranks_per_process_
                                                   : rank - (rank - placed.first_rank) % placed.devices;
  const int size = distance == Distance::kProcess ? ranks_per_process_ : placed.devices;
  return {first, static_cast<int>(std::min<int64_t>(num_ranks_, int64_t{first} + size))};
}

Link Topology::LinkBetween(int a, int b) const {
  switch (Between(a, b)) {
    case Distance::kSelf:
      return {0, 0};
    case Distance::kProcess:
      return GroupOf(b).device.same_process;
    case Distance::kHost:
      return GroupOf(b).device.same_host;
    case Distance::kNetwork:
      return WireBetween(a, b).link;
  }
  return {0, 0};
}

Topology OneHost(int num_ranks, int ranks_per_process, const DeviceSpeeds& device) {
  HostGroup host;
  host.devices = num_ranks;
  host.device = device;
  return *Topology::Create(num_ranks, ranks_per_process, {host});
}

}  // namespace oneflow
