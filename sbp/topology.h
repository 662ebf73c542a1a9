// The hosts of a job, which ranks they hold, and what links and devices cost.
//
//   rank      0 1 2 3 | 4 5 6 7 | 8 9     hosts take ranks in order, so that the innermost mesh axes lie inside a host
//   process   0 0 1 1 | 2 2 3 3 | 4 4     consecutive ranks of one host
//   device    0 1 2 3 | 0 1 2 3 | 0 1     numbered on its host
//
// Links are priced by alpha and beta (seconds, and seconds per byte) and come in classes:
//
//   within a process     memory that both ranks see
//   on a host            shared memory between processes; between GPUs what connects them
//   between hosts        the fastest class of network card that both hosts have; the ranks of a host share its cards
//
// Every question about a rank is answered in constant time. Nothing is stored per rank.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct Link {
  double alpha_s = 0;          // latency of one transfer
  double beta_s_per_byte = 0;  // 1 / bandwidth
};

// The share of the full rate that work of at least this size reaches. A table of these ascends from size 0.
struct Efficiency {
  double from = 0;
  double share = 1;
};

// The share of the last row that is not above `size`; 1 if the table is empty.
double ShareAt(const std::vector<Efficiency>& table, double size);

// A kind of device: what computing, memory and the links inside a host cost. The initial values are those of a
// processor core with wide vectors, whose tensors mostly stay in the outer caches.
struct DeviceSpeeds {
  std::string kind = "cpu";
  DeviceKind device = DeviceKind::kCpu;  // what the runtime runs there
  double f32_flops = 50e9;               // per second, of matrix products
  double bf16_flops = 50e9;
  double f16_flops = 50e9;
  double memory_bytes_per_s = 20e9;
  int64_t memory_bytes = 0;            // of one device; 0: unknown
  double act_s = 20e-6;                // of a boxing, however little it moves: messages, a place in the schedule
  Link same_process{2e-6, 1.0 / 8e9};  // read in place, by a core that must fetch the lines
  Link same_host{30e-6, 1.0 / 8e9};    // in place too; who waits there shares cores with others, and mostly sleeps
  // Between the device and the tiers below its memory (oneflow_core/tiers.h). Those of the host's memory are of each
  // device and direction; the disk is one for all devices of the host, and both directions.
  Link host_tier{10e-6, 1.0 / 8e9};
  Link disk_tier{100e-6, 1.0 / 1.5e9};
  // For times of single kernels (tools/study/sim/); choices among layouts compare, and take full rates.
  std::vector<Efficiency> product_efficiency;  // by flops of a kernel
  std::vector<Efficiency> memory_efficiency;   // by bytes of a kernel
  bool hides_memory = true;                    // a kernel computes while it reads; else its bytes come on top

  // Per second, of products of operands of that type.
  double flops(DType dtype) const {
    return dtype == DType::kBFloat16 ? bf16_flops : dtype == DType::kFloat16 ? f16_flops : f32_flops;
  }
};

// Cards of one class in a host. Hosts reach one another through cards of the same class only.
struct Nics {
  std::string link_class;  // "ethernet", "roce", "infiniband"
  int count = 1;
  Link link;  // of one card
};

// One usual card of a class. InvalidArgument if there is no class of that name.
absl::StatusOr<Nics> NicsOfClass(absl::string_view link_class);

// Hosts that are alike.
struct HostGroup {
  int64_t count = 1;
  int64_t devices = 1;       // ranks on each
  int cores = 0;             // of each; 0: unknown
  int64_t memory_bytes = 0;  // of each host, beside its devices' own; 0: unknown
  DeviceSpeeds device;
  std::vector<Nics> nics;  // empty: one card of the class "ethernet"
};

// How far apart two ranks are; nearer is cheaper.
enum class Distance : uint8_t { kSelf, kProcess, kHost, kNetwork };

// A value; deterministic.
class Topology {
 public:
  Topology() = default;  // no ranks

  // `num_ranks` ranks on the hosts of the groups, in order; the last hosts may hold fewer than they could, or none.
  // InvalidArgument if a number is not positive, the hosts have too few devices or more than 2^31, a process would lie
  // on two hosts, or two hosts have no class of cards in common. Allocates nothing that grows with ranks or hosts.
  static absl::StatusOr<Topology> Create(int num_ranks, int ranks_per_process, std::vector<HostGroup> hosts);

  int num_ranks() const { return num_ranks_; }
  int ranks_per_process() const { return ranks_per_process_; }
  // As given to Create().
  const std::vector<HostGroup>& groups() const { return groups_; }
  int num_hosts() const { return num_ranks_ == 0 ? 0 : HostOf(num_ranks_ - 1) + 1; }  // that hold ranks

  // REQUIRES (all below): ranks are in [0, num_ranks()).
  int ProcessOf(int rank) const { return rank / ranks_per_process_; }
  int HostOf(int rank) const {
    const Placed& placed = PlacedOf(rank);
    return placed.first_host + (rank - placed.first_rank) / placed.devices;
  }
  // The rank's device among those of its host.
  int DeviceOf(int rank) const {
    const Placed& placed = PlacedOf(rank);
    return (rank - placed.first_rank) % placed.devices;
  }
  const HostGroup& GroupOf(int rank) const { return groups_[GroupIndexOf(rank)]; }
  // Of its host's group, among groups().
  size_t GroupIndexOf(int rank) const {
    size_t i = placed_.size() - 1;
    while (placed_[i].first_rank > rank) --i;  // the groups are few
    return i;
  }

  Distance Between(int a, int b) const {
    if (a == b) return Distance::kSelf;
    if (ProcessOf(a) == ProcessOf(b)) return Distance::kProcess;
    return HostOf(a) == HostOf(b) ? Distance::kHost : Distance::kNetwork;
  }
  // The ranks at most so far from `rank`: [first, second).
  std::pair<int, int> RanksWithin(Distance distance, int rank) const;

  // The cost of one transfer between two ranks, alone on its link. A rank reads its own memory for free.
  Link LinkBetween(int a, int b) const;
  // Seconds per byte through all cards that the hosts of two ranks use between them. REQUIRES: different hosts.
  double HostBeta(int a, int b) const { return WireBetween(a, b).host_beta; }

  // Whether all hosts have the same cards.
  bool AlikeCards() const { return alike_cards_; }

  // The slowest kind of device among the hosts.
  const DeviceSpeeds& device() const { return device_; }

 private:
  // Where a group's ranks and hosts begin.
  struct Placed {
    int first_rank = 0;
    int first_host = 0;
    int devices = 1;
  };
  struct Wire {
    Link link;
    double host_beta = 0;
  };

  absl::Status Place(int num_ranks);
  absl::Status CheckProcesses() const;
  absl::Status Connect();

  const Placed& PlacedOf(int rank) const { return placed_[GroupIndexOf(rank)]; }
  const Wire& WireBetween(int a, int b) const { return wires_[GroupIndexOf(a) * placed_.size() + GroupIndexOf(b)]; }

  int num_ranks_ = 0;
  int ranks_per_process_ = 1;
  std::vector<HostGroup> groups_;  // those that hold ranks
  std::vector<Placed> placed_;     // one per group
  std::vector<Wire> wires_;        // group by group
  bool alike_cards_ = true;
  DeviceSpeeds device_;
};

// `num_ranks` ranks in consecutive groups of `ranks_per_process` (the last may be smaller), all on one host.
// REQUIRES: both are positive.
Topology OneHost(int num_ranks, int ranks_per_process, const DeviceSpeeds& device = {});

}  // namespace oneflow
