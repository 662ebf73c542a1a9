// What acts and messages cost by what was measured of their parts: the instructions of a plan, and what the runtime
// takes for messages and around acts (`oneflow bench kernels`, proto/kernel_costs.proto).
//
//   act           the sum of its instructions, times a factor of its rank and step; no less than an emulated link takes
//                 for what it reads of other ranks
//   message       by how far apart actor and actor are
//   wake, pause   by queue
//
// What varies is drawn from the percentiles that were measured, by actor and act: the same every time.
//
// What crosses hosts, and collectives, no single machine can measure: those cost what the job's cluster says of its
// links, as do shipments (predicted_costs.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "actor/sim/simulator.h"
#include "oneflow_core/op.h"
#include "proto/kernel_costs.pb.h"
#include "sbp/topology.h"
#include "tools/study/sim/predicted_costs.h"

namespace oneflow {

inline constexpr uint32_t kKernelCostsVersion = 1;

// NotFound if the file cannot be read; InvalidArgument with file and line, or what is wrong, if it is no such file.
absl::StatusOr<pb::KernelCosts> ReadKernelCosts(const std::string& path);
std::string KernelCostsText(const pb::KernelCosts& costs);

struct KernelCostsOptions {
  bool or_roofline = false;  // what was not measured costs what is predicted; else it is an error
  double emulated_ns_per_byte = 0;
};

class KernelCosts {
 public:
  // Borrows the program and `predicted`, whose program it is. NotFound, naming the first instruction, distance or queue
  // that the file lacks, and how many it lacks.
  static absl::StatusOr<KernelCosts> Of(const pb::KernelCosts& file, const pb::Program& program, int plan,
                                        const Topology& topology, const PredictedCosts& predicted,
                                        const KernelCostsOptions& options);

  // Borrows this.
  SimulatedCosts Costs() const;
  // Of so many instructions, all ranks together, how many are predicted because the file lacks them.
  int num_instructions() const { return num_instructions_; }
  int num_predicted() const { return num_predicted_; }

 private:
  using Percentiles = std::vector<double>;
  struct AroundActs {
    Percentiles wake_us, pause_us;
  };
  struct Act {
    ActCost cost;
    int64_t least_ns = 0;
  };

  KernelCosts(const pb::Program& program, int plan, const Topology& topology)
      : program_(program), plan_(program.plans(plan)), topology_(topology) {}

  absl::Status TakeActs(const pb::KernelCosts& file, const PredictedCosts& predicted,
                        const KernelCostsOptions& options);
  absl::Status TakeMessages(const pb::KernelCosts& file, const KernelCostsOptions& options);

  const pb::Program& program_;
  const pb::Plan& plan_;
  std::vector<Act> acts_;                                                  // by actor
  absl::flat_hash_map<std::pair<int32_t, int32_t>, int64_t> shipment_ns_;  // by reader and register
  Percentiles step_factors_;
  std::vector<AroundActs> queues_;  // by queue
  Percentiles message_us_[3];       // between queues of a rank, ranks of a process, processes of a host
  const Topology topology_;
  int num_instructions_ = 0, num_predicted_ = 0;
};

}  // namespace oneflow
