#include "compiler/lower/plan_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/lower/plan_reader.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

std::string Size(int64_t bytes) {
  if (bytes < 10000) return absl::StrCat(bytes, " B");
  if (bytes < 10'000'000) return absl::StrFormat("%.1f kB", bytes / 1e3);
  if (bytes < int64_t{10'000'000'000}) return absl::StrFormat("%.1f MB", bytes / 1e6);
  return absl::StrFormat("%.1f GB", bytes / 1e9);
}

// The plan that determines the size of the class' memory.
const pb::ClassMemory* LargestPlan(const pb::PlanSet& set, int rank_class) {
  const pb::ClassMemory* largest = nullptr;
  for (const pb::ClassPlan& plan : set.plans()) {
    const pb::ClassMemory& memory = plan.memory(rank_class);
    if (largest == nullptr || BytesOfZone(memory, kWorkZone) > BytesOfZone(*largest, kWorkZone)) largest = &memory;
  }
  return largest;
}

// "gradients 1.2 GB, weights 300.0 MB", the largest first.
std::string WhatTakesMost(const pb::ClassMemory& memory) {
  std::vector<const pb::MemoryUse*> uses;
  for (const pb::MemoryUse& use : memory.at_peak()) {
    if (use.bytes() > 0) uses.push_back(&use);
  }
  std::stable_sort(uses.begin(), uses.end(), [](const auto* a, const auto* b) { return a->bytes() > b->bytes(); });
  return absl::StrJoin(uses, ", ", [](std::string* out, const pb::MemoryUse* use) {
    absl::StrAppend(out, use->what(), " ", Size(use->bytes()));
  });
}

// ", in the host tier 3.1 MB, in the disk tier 200.0 MB".
std::string TiersText(const pb::RankClass& ranks) {
  std::string out;
  for (const ZoneKind& kind : kZones) {
    const int64_t bytes = kind.of_device ? 0 : BytesOfZone(ranks, kind.zone);
    if (bytes > 0) absl::StrAppend(&out, ", in the ", kind.name, " tier ", Size(bytes));
  }
  return out;
}

std::string Largest(const pb::ClassMemory& memory) {
  return absl::StrJoin(memory.largest(), ", ", [](std::string* out, const pb::MemoryUse& use) {
    absl::StrAppend(out, "'", use.name(), "' ", Size(use.bytes()));
  });
}

std::string Remedy(const pb::ClassMemory& memory) {
  const pb::MemoryUse* most = nullptr;
  for (const pb::MemoryUse& use : memory.at_peak()) {
    if (most == nullptr || use.bytes() > most->bytes()) most = &use;
  }
  if (most == nullptr) return "";
  if (most->what() == "activations" || most->what() == "transfers" || most->what() == "scratch") {
    return "More micro-batches, a smaller batch or a larger tp make activations smaller; recompute and offload keep "
           "fewer";
  }
  return "A larger tp or pp, or variables split over dp (zero, cluster.variable_bytes_per_device), make them smaller; "
         "offload keeps them elsewhere";
}

absl::Status TooMuch(const pb::PlanSet& set, int rank, int rank_class, absl::string_view whose, int64_t needed,
                     int64_t there) {
  const std::string what = absl::StrCat("rank ", rank, " of job '", set.job(), "': ", whose, " needs ", needed,
                                        " bytes of memory, it has ", there);
  const pb::ClassMemory* const memory = LargestPlan(set, rank_class);
  if (memory == nullptr) return absl::ResourceExhaustedError(what);
  return absl::ResourceExhaustedError(absl::StrCat(what, ". At most in use on that rank: ", WhatTakesMost(*memory),
                                                   "; the largest: ", Largest(*memory), ". ", Remedy(*memory)));
}

}  // namespace

absl::Status CheckDeviceMemory(const pb::PlanSet& set, const Topology& topology) {
  std::vector<int> class_of_rank(topology.num_ranks(), 0);
  for (int c = 0; c < set.classes_size(); ++c) {
    for (const int rank : set.classes(c).ranks()) class_of_rank[rank] = c;
  }
  int64_t on_host = 0;  // of the ranks of one host so far
  for (int rank = 0; rank < topology.num_ranks(); ++rank) {
    const int rank_class = class_of_rank[rank];
    const int64_t needed = BytesOfZones(set.classes(rank_class)), libraries = set.classes(rank_class).library_bytes();
    const HostGroup& host = topology.GroupOf(rank);
    const int64_t there = host.device.memory_bytes;
    if (there > 0 && needed > there - libraries) {
      const std::string whose =
          absl::StrCat("its device, of kind '", host.device.kind, "',",
                       libraries == 0 ? "" : absl::StrCat(" beside ", libraries, " bytes for libraries"));
      return TooMuch(set, rank, rank_class, whose, needed, there);
    }
    if (host.memory_bytes == 0) continue;
    const int64_t here = set.classes(rank_class).host_bytes() + BytesOfZone(set.classes(rank_class), kHostZone) +
                         (host.device.device == DeviceKind::kCpu ? needed : 0);
    on_host = topology.DeviceOf(rank) == 0 ? here : on_host + here;
    if (on_host > host.memory_bytes) {
      const std::string whose =
          absl::StrCat("its host, with ranks ", rank - topology.DeviceOf(rank), " to ", rank, ",");
      return TooMuch(set, rank, rank_class, whose, on_host, host.memory_bytes);
    }
  }
  return absl::OkStatus();
}

std::map<std::string, int64_t> MemoryAtPeak(const pb::PlanSet& set, int rank_class) {
  std::map<std::string, int64_t> memory;
  int64_t unused = BytesOfZones(set.classes(rank_class));
  const pb::ClassMemory* const largest = LargestPlan(set, rank_class);
  for (int i = 0; largest != nullptr && i < largest->at_peak_size(); ++i) {
    memory[largest->at_peak(i).what()] += largest->at_peak(i).bytes();
    unused -= largest->at_peak(i).bytes();
  }
  memory["unused"] = unused;
  return memory;
}

std::string PlanMemoryText(const pb::PlanSet& set) {
  std::string out = absl::StrCat("job '", set.job(), "': memory of a rank, by what it is for when most is in use\n");
  for (int c = 0; c < set.classes_size(); ++c) {
    const pb::RankClass& of = set.classes(c);
    absl::StrAppend(&out, "class ", c, ", ", of.ranks_size(), of.ranks_size() == 1 ? " rank" : " ranks", " from rank ",
                    of.ranks(0), ": ", Size(BytesOfZones(of)), " (", BytesOfZones(of), " bytes)",
                    of.library_bytes() > 0 ? absl::StrCat(", libraries about ", Size(of.library_bytes())) : "",
                    of.host_bytes() > 0 ? absl::StrCat(", and ", Size(of.host_bytes()), " of its host") : "",
                    TiersText(of), "\n");
    bool first = true;
    for (const pb::ClassPlan& plan : set.plans()) {
      const pb::ClassMemory& memory = plan.memory(c);
      if (std::exchange(first, false)) {
        absl::StrAppendFormat(&out, "  %-12s", "plan");
        for (const pb::MemoryUse& use : memory.at_peak()) absl::StrAppendFormat(&out, " %12s", use.what());
        absl::StrAppendFormat(&out, " %12s %12s\n", "unused", "all");
      }
      const int64_t all = BytesOfZones(memory) + VariableBytesOfZones(of);
      int64_t used = 0;
      absl::StrAppendFormat(&out, "  %-12s", plan.name());
      for (const pb::MemoryUse& use : memory.at_peak()) {
        absl::StrAppendFormat(&out, " %12s", Size(use.bytes()));
        used += use.bytes();
      }
      absl::StrAppendFormat(&out, " %12s %12s\n", Size(all - used), Size(all));
      if (memory.largest_size() > 0) absl::StrAppend(&out, "    largest: ", Largest(memory), "\n");
    }
  }
  return out;
}

}  // namespace oneflow
