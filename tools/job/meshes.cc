#include "tools/job/meshes.h"

#include <algorithm>
#include <set>

#include "tools/job/evaluation.h"
#include "tools/job/field_rules.h"

namespace oneflow {
namespace {

constexpr int64_t kMaxDevices = int64_t{1} << 31;
constexpr int kMaxOfOne = 4096;  // of a mesh

// What a config says of the mesh of one plan.
struct OwnMesh {
  std::string plan;
  const pb::Mesh& mesh;
  const pb::Ranks& ranks;
};

template <typename Part>
void AddOwn(const pb::JobConfig& config, const std::string& plan, const Part& part, std::vector<OwnMesh>& own) {
  if (part.has_mesh() || part.has_ranks())
    own.push_back({plan, part.has_mesh() ? part.mesh() : config.mesh(), part.ranks()});
}

std::vector<OwnMesh> Own(const pb::JobConfig& config) {
  std::vector<OwnMesh> own;
  if (config.has_evaluate()) {
    for (const char* plan : {kEvaluate, kEvaluateRest}) AddOwn(config, plan, config.evaluate(), own);
  }
  if (config.has_generate()) AddOwn(config, "generate", config.generate(), own);
  return own;
}

// Without what meshes on named hosts need. Where the config describes no hosts, there is one, which has as many as
// needed.
int64_t DevicesWithoutHosts(const pb::JobConfig& config) {
  int64_t devices = NumDevices(config.mesh());
  if (devices == 0) return 0;
  for (const OwnMesh& own : Own(config)) {
    if (!own.ranks.hosts().empty() && !config.cluster().hosts().empty()) continue;
    const int64_t size = NumDevices(own.mesh);
    if (size == 0) return 0;
    devices = std::max(devices, std::max(own.ranks.first(), 0) + size);
  }
  return devices;
}

// The ranks [first, second) of a host; of one that is not there, none. Without a description one host has all.
std::pair<int64_t, int64_t> RanksOn(int64_t host, const pb::JobConfig& config) {
  if (host < 0) return {0, 0};
  if (config.cluster().hosts().empty() && host == 0) return {0, kMaxDevices};
  int64_t first = 0;
  for (const pb::Hosts& group : config.cluster().hosts()) {
    const int64_t count = std::max<int64_t>(NumHosts(group), 0),
                  each = std::max<int64_t>(DevicesOnEach(group, config), 0);
    if (host < count) return {first + host * each, first + (host + 1) * each};
    host -= count;
    if (each > 0 && count > (kMaxDevices - first) / each) return {0, 0};
    first += count * each;
  }
  return {0, 0};
}

int64_t NumAllHosts(const pb::JobConfig& config) {
  int64_t hosts = config.cluster().hosts().empty() ? 1 : 0;
  for (const pb::Hosts& group : config.cluster().hosts()) hosts += std::max<int64_t>(NumHosts(group), 0);
  return hosts;
}

// Reads one of them; errors name the field.
class OwnMeshReader {
 public:
  OwnMeshReader(const SourcedConfig& config, const OwnMesh& own) : config_(config), own_(own) {}

  absl::StatusOr<PlanMesh> Read() const {
    OF_RETURN_IF_ERROR(CheckSize());
    if (own_.ranks.has_first() && !own_.ranks.hosts().empty())
      return Wrong("ranks", "names a first rank and hosts; it may be one of them");
    OF_ASSIGN_OR_RETURN(const std::vector<int> ranks, Ranks());
    OF_ASSIGN_OR_RETURN(const Mesh mesh, ToMesh(own_.mesh));
    return PlanMesh::Create(mesh, ranks);
  }

 private:
  absl::Status Wrong(absl::string_view field, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(config_.Where(absl::StrCat(own_.plan, ".", field)), ": ", what));
  }

  absl::Status CheckSize() const {
    const int64_t devices = NumDevices(own_.mesh);
    if (devices < 1 || devices > kMaxOfOne)
      return Wrong("mesh", absl::StrCat("has ", devices, " devices, at most ", kMaxOfOne, " are supported"));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int>> Ranks() const {
    const int64_t size = NumDevices(own_.mesh);
    std::vector<int> ranks;
    if (own_.ranks.hosts().empty()) {
      const int first = own_.ranks.first();
      for (int64_t i = 0; i < size; ++i) ranks.push_back(first + static_cast<int>(i));
      OF_RETURN_IF_ERROR(CheckThere(first + size));
      return ranks;
    }
    std::set<int> seen;
    int64_t devices = 0;  // of the hosts
    for (const int host : own_.ranks.hosts()) {
      const auto [first, end] = RanksOn(host, config_.config);
      if (first == end)
        return Wrong("ranks.hosts",
                     absl::StrCat("host ", host, " is not one of the job's ", NumAllHosts(config_.config)));
      if (!seen.insert(host).second) return Wrong("ranks.hosts", absl::StrCat("host ", host, " is named twice"));
      devices += end - first;
      for (int64_t rank = first; rank < end && static_cast<int64_t>(ranks.size()) < size; ++rank)
        ranks.push_back(static_cast<int>(rank));
    }
    if (static_cast<int64_t>(ranks.size()) == size) return ranks;
    return Wrong("ranks.hosts", absl::StrCat("the mesh has ", size, " devices, the hosts it names have ", devices));
  }

  // That the cluster, as far as it says so, has ranks up to `end`.
  absl::Status CheckThere(int64_t end) const {
    const pb::Cluster& cluster = config_.config.cluster();
    const auto beyond = [&](absl::string_view what, int64_t devices) {
      return Wrong(own_.ranks.has_first() ? "ranks.first" : "mesh",
                   absl::StrCat("takes ranks up to ", end - 1, ", but ", what, " have ", devices, " devices"));
    };
    if (cluster.has_processes() && cluster.has_devices_per_process()) {
      const int64_t devices = int64_t{cluster.processes()} * cluster.devices_per_process();
      if (end > devices) return beyond("the processes", devices);
    }
    const auto [first, last_end] = RanksOn(NumAllHosts(config_.config) - 1, config_.config);
    if (first < last_end && end > last_end) return beyond("the hosts", last_end);
    return absl::OkStatus();
  }

  const SourcedConfig& config_;
  const OwnMesh& own_;
};

}  // namespace

int64_t NumDevices(const pb::Mesh& mesh) {
  int64_t devices = 1;
  std::vector<int64_t> sizes = {mesh.pp(), mesh.dp(), mesh.ep(), mesh.cp(), mesh.tp()};
  for (const pb::MeshAxis& axis : mesh.axes()) sizes.push_back(axis.size());
  for (const int64_t size : sizes) {
    devices *= std::max<int64_t>(size, 1);
    if (devices > kMaxDevices) return 0;
  }
  return devices;
}

int64_t NumDevices(const pb::JobConfig& config) {
  int64_t devices = DevicesWithoutHosts(config);
  if (devices == 0 || config.cluster().hosts().empty()) return devices;
  for (const OwnMesh& own : Own(config)) {
    for (const int host : own.ranks.hosts()) devices = std::max(devices, RanksOn(host, config).second);
  }
  return devices;
}

int64_t NumHosts(const pb::Hosts& group) { return WithDefaults(group).count(); }

int64_t DevicesOnEach(const pb::Hosts& group, const pb::JobConfig& config) {
  if (group.has_devices()) return group.devices();
  int64_t hosts = 0;
  for (const pb::Hosts& other : config.cluster().hosts()) hosts += std::max<int64_t>(NumHosts(other), 1);
  return (DevicesWithoutHosts(config) + hosts - 1) / hosts;
}

absl::StatusOr<Mesh> ToMesh(const pb::Mesh& mesh) {
  std::vector<Axis> axes = {{"pp", mesh.pp()}};
  for (const pb::MeshAxis& axis : mesh.axes()) {
    AxisRole role = AxisRole::kNone;
    for (const AxisRoleName& row : AxisRoleNames()) {
      if (row.name == axis.role()) role = row.role;
    }
    axes.push_back({axis.name(), axis.size(), role});
  }
  axes.push_back({"dp", mesh.dp()});
  axes.push_back({"ep", mesh.ep()});
  axes.push_back({"cp", mesh.cp()});
  axes.push_back({"tp", mesh.tp()});
  axes.erase(std::remove_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.size <= 1; }), axes.end());
  return Mesh::Create(std::move(axes));
}

absl::StatusOr<std::map<std::string, PlanMesh>> OwnMeshes(const SourcedConfig& config) {
  std::map<std::string, PlanMesh> meshes;
  for (const OwnMesh& own : Own(config.config)) {
    OF_ASSIGN_OR_RETURN(PlanMesh mesh, OwnMeshReader(config, own).Read());
    meshes.emplace(own.plan, std::move(mesh));
  }
  return meshes;
}

}  // namespace oneflow
