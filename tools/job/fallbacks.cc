#include "tools/job/fallbacks.h"

#include <algorithm>

#include "tools/job/cluster.h"
#include "tools/job/meshes.h"

namespace oneflow {
namespace {

constexpr int kMostFallbacks = 16;
constexpr int kParts = 8;  // of dp, which steps are no finer than

FallbackConfig OnMesh(const SourcedConfig& config, const pb::Mesh& mesh, std::string field) {
  FallbackConfig fallback = {config, std::move(field)};
  pb::JobConfig& smaller = fallback.config.config;
  const int64_t per_process = NumDevices(smaller) / NumProcesses(smaller);
  *smaller.mutable_mesh() = mesh;
  smaller.clear_restart();
  smaller.clear_slots();
  pb::Cluster& cluster = *smaller.mutable_cluster();
  if (!cluster.has_processes() && !cluster.has_devices_per_process()) return fallback;
  cluster.clear_devices_per_process();
  const int64_t devices = NumDevices(smaller);
  int64_t of_each = std::min(per_process, devices);
  while (of_each > 1 && devices % of_each != 0) --of_each;
  cluster.set_processes(static_cast<int>(of_each > 0 ? devices / of_each : 1));
  return fallback;
}

// Less of dp, the most first.
std::vector<int> SmallerDp(int dp) {
  std::vector<int> sizes;
  const int parts = std::min(dp, kParts);
  for (int part = parts - 1; part > 0; --part) sizes.push_back(static_cast<int>(int64_t{dp} * part / parts));
  return sizes;
}

}  // namespace

absl::StatusOr<std::vector<FallbackConfig>> FallbackConfigs(const SourcedConfig& config) {
  const pb::Restart& restart = config.config.restart();
  const int64_t devices = NumDevices(config.config);
  std::vector<FallbackConfig> fallbacks;
  for (const pb::Mesh& mesh : restart.meshes()) {
    fallbacks.push_back(OnMesh(config, mesh, "restart.meshes"));
    const int64_t smaller = NumDevices(fallbacks.back().config.config);
    if (smaller < devices) continue;
    return absl::InvalidArgumentError(absl::StrCat(config.Where("restart.meshes"), ": mesh ", fallbacks.size(),
                                                   " takes ", smaller, " devices, which are not fewer than the job's ",
                                                   devices));
  }
  const int least = restart.least_devices();
  for (const int dp : least == 0 ? std::vector<int>() : SmallerDp(config.config.mesh().dp())) {
    pb::Mesh mesh = config.config.mesh();
    mesh.set_dp(dp);
    FallbackConfig smaller = OnMesh(config, mesh, "restart.least_devices");
    const int64_t takes = NumDevices(smaller.config.config);
    if (takes >= least && takes < devices) fallbacks.push_back(std::move(smaller));
  }
  if (static_cast<int>(fallbacks.size()) <= kMostFallbacks) return fallbacks;
  return absl::InvalidArgumentError(absl::StrCat(config.Where("restart"), ": has ", fallbacks.size(),
                                                 " meshes of fewer devices; there may be ", kMostFallbacks));
}

}  // namespace oneflow
