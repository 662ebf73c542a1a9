#include "tools/job/cluster.h"

#include <algorithm>
#include <limits>

#include "sbp/device_kinds.h"
#include "tools/job/device_table.h"
#include "tools/job/meshes.h"

namespace oneflow {
namespace {

// Reads the messages of one config; errors name the field.
class HostReader {
 public:
  explicit HostReader(const SourcedConfig& config) : config_(config), cluster_(config.config.cluster()) {}

  absl::StatusOr<std::vector<HostGroup>> Read() {
    table_ = KnownDevices();
    if (!cluster_.device_table().empty()) {
      OF_ASSIGN_OR_RETURN_AT(std::vector<DeviceSpeeds> more, ReadDeviceTable(cluster_.device_table()),
                             config_.Where("cluster.device_table"));
      table_.insert(table_.begin(), more.begin(), more.end());
    }
    std::vector<HostGroup> hosts;
    if (cluster_.hosts().empty()) {
      HostGroup all;
      all.devices = NumDevices(config_.config);
      OF_ASSIGN_OR_RETURN_AT(all.device, Device(cluster_.device_kind()), config_.Where("cluster.device_kind"));
      hosts.push_back(std::move(all));
    }
    for (const pb::Hosts& group : cluster_.hosts()) {
      OF_ASSIGN_OR_RETURN_AT(hosts.emplace_back(), Group(group),
                             absl::StrCat(config_.Where("cluster.hosts"), ": group ", hosts.size()));
    }
    return hosts;
  }

 private:
  static absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

  DeviceKind Kind() const { return cluster_.device() == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu; }

  absl::StatusOr<DeviceSpeeds> Device(const std::string& kind) const {
    if (kind.empty() && cluster_.device_table().empty()) return UsualDevice(Kind());
    if (kind.empty()) {
      for (const DeviceSpeeds& row : table_) {
        if (row.device == Kind()) return row;  // the named table comes first
      }
    }
    const DeviceSpeeds* const row = FindDevice(table_, kind);
    if (row == nullptr) {
      std::string known;
      for (const DeviceSpeeds& other : table_) absl::StrAppend(&known, known.empty() ? "" : ", ", other.kind);
      return Wrong(absl::StrCat("'", kind, "' is no kind of device; known are ", known));
    }
    if (row->device != Kind()) {
      return Wrong(absl::StrCat("'", kind, "' is a ", row->device == DeviceKind::kCpu ? "cpu" : "cuda",
                                " device, but cluster.device is '", Kind() == DeviceKind::kCpu ? "cpu" : "cuda", "'"));
    }
    return *row;
  }

  absl::StatusOr<HostGroup> Group(const pb::Hosts& group) const {
    HostGroup hosts;
    hosts.count = NumHosts(group);
    hosts.devices = DevicesOnEach(group, config_.config);
    hosts.cores = group.cores();
    hosts.memory_bytes = group.memory_bytes();
    OF_ASSIGN_OR_RETURN(hosts.device,
                        Device(group.device_kind().empty() ? cluster_.device_kind() : group.device_kind()));
    if (group.device_memory_bytes() > 0) hosts.device.memory_bytes = group.device_memory_bytes();
    for (const pb::Nics& nics : group.nics()) {
      OF_ASSIGN_OR_RETURN(hosts.nics.emplace_back(), Cards(nics));
    }
    return hosts;
  }

  static absl::StatusOr<Nics> Cards(const pb::Nics& given) {
    OF_ASSIGN_OR_RETURN(Nics nics, NicsOfClass(given.link()));
    if (given.has_count()) nics.count = given.count();
    if (given.has_gbit_per_s()) nics.link.beta_s_per_byte = 8e-9 / given.gbit_per_s();
    if (given.has_latency_us()) nics.link.alpha_s = given.latency_us() * 1e-6;
    return nics;
  }

  const SourcedConfig& config_;
  const pb::Cluster& cluster_;
  std::vector<DeviceSpeeds> table_;
};

// A device cannot hold more than it has memory.
absl::Status CheckMemory(const SourcedConfig& config, const std::vector<HostGroup>& hosts) {
  const pb::Cluster& cluster = config.config.cluster();
  const std::pair<const char*, int64_t> limits[] = {
      {"cluster.variable_bytes_per_device", cluster.variable_bytes_per_device()},
      {"cluster.memory_bytes_per_device", cluster.memory_bytes_per_device()}};
  for (const auto& [field, limit] : limits) {
    for (const HostGroup& group : hosts) {
      if (group.device.memory_bytes == 0 || limit <= group.device.memory_bytes) continue;
      return absl::InvalidArgumentError(absl::StrCat(config.Where(field), ": ", limit, " bytes are more than the ",
                                                     group.device.memory_bytes, " bytes of a '", group.device.kind,
                                                     "'"));
    }
  }
  return absl::OkStatus();
}

// Links inside a host take at least so long per byte.
void SlowDown(double seconds_per_byte, DeviceSpeeds& device) {
  for (Link* const link : {&device.same_process, &device.same_host}) {
    link->beta_s_per_byte = std::max(link->beta_s_per_byte, seconds_per_byte);
  }
}

}  // namespace

int64_t NumProcesses(const pb::JobConfig& config) {
  if (config.cluster().has_processes()) return config.cluster().processes();
  int64_t hosts = 0, left = NumDevices(config);
  for (const pb::Hosts& group : config.cluster().hosts()) {
    const int64_t of_each = std::max<int64_t>(DevicesOnEach(group, config), 1);
    const int64_t used = std::min(std::max<int64_t>(NumHosts(group), 0), (left + of_each - 1) / of_each);
    hosts += used;
    left = std::max<int64_t>(0, left - used * of_each);
  }
  return std::max<int64_t>(hosts, 1);
}

absl::StatusOr<std::vector<HostGroup>> HostsOf(const SourcedConfig& config) {
  OF_ASSIGN_OR_RETURN(std::vector<HostGroup> hosts, HostReader(config).Read());
  for (HostGroup& group : hosts) SlowDown(config.config.cluster().emulated_ms_per_mb() * 1e-9, group.device);
  const int64_t devices = NumDevices(config.config);
  if (devices == 0 || devices > std::numeric_limits<int>::max())
    return absl::InvalidArgumentError(absl::StrCat(config.Where("mesh"), ": has more than 2^31 devices"));
  const int64_t processes = std::max<int64_t>(1, NumProcesses(config.config));
  const int per_process = static_cast<int>(std::max<int64_t>(1, devices / processes));
  OF_RETURN_IF_ERROR_AT(Topology::Create(static_cast<int>(devices), per_process, hosts).status(),
                        config.Where("cluster.hosts"));
  OF_RETURN_IF_ERROR(CheckMemory(config, hosts));
  return hosts;
}

}  // namespace oneflow
