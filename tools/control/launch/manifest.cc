#include "tools/control/launch/manifest.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPort = 7000;
constexpr char kTlsFolder[] = "/etc/oneflow/tls";
constexpr char kJobFolder[] = "/etc/oneflow/job";
constexpr char kDataFolder[] = "/data";
constexpr char kStoreFolder[] = "/var/lib/oneflow";

Json Metadata(const ManifestOptions& options, const std::string& name) {
  Json metadata = {{"name", name}};
  if (!options.space.empty()) metadata["namespace"] = options.space;
  metadata["labels"] = {{"app.kubernetes.io/name", "oneflow"}, {"app.kubernetes.io/instance", options.name}};
  return metadata;
}

// By which pods of a part are found.
Json Labels(const ManifestOptions& options, const std::string& part) {
  return {{"app.kubernetes.io/instance", options.name}, {"app.kubernetes.io/component", part}};
}

Json FromField(const std::string& name, const std::string& path) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
}

// What a pod is made of; parts are added to it before it becomes one.
struct Pod {
  Json arguments = Json::array(), environment = Json::array(), mounts = Json::array(), volumes = Json::array();

  void Mount(const std::string& name, const std::string& path, Json source, bool read_only = false) {
    Json mount = {{"name", name}, {"mountPath", path}};
    if (read_only) mount["readOnly"] = true;
    mounts.push_back(std::move(mount));
    source["name"] = name;
    volumes.push_back(std::move(source));
  }
};

Pod BasicPod(const ManifestOptions& options) {
  Pod pod;
  if (options.tls.empty()) return pod;
  pod.Mount("tls", kTlsFolder, {{"secret", {{"secretName", options.tls}, {"defaultMode", 0400}}}}, true);
  pod.environment.push_back({{"name", "ONEFLOW_TLS"}, {"value", kTlsFolder}});
  return pod;
}

void ListenInTheCluster(const ManifestOptions& options, Pod& pod) {
  if (options.tls.empty()) pod.arguments.push_back("--insecure");
}

// Registers of a pod's processes are in shared memory, of which a container has 64 MiB unless it says otherwise.
Pod ComputingPod(const ManifestOptions& options) {
  Pod pod = BasicPod(options);
  pod.Mount("shared-memory", "/dev/shm", {{"emptyDir", {{"medium", "Memory"}}}});
  if (!options.claim.empty()) {
    pod.Mount("data", kDataFolder, {{"persistentVolumeClaim", {{"claimName", options.claim}}}});
  }
  return pod;
}

Json Limits(const ManifestOptions& options) {
  Json limits = Json::object();
  if (options.cpus > 0) limits["cpu"] = absl::StrCat(options.cpus);
  if (!options.memory.empty()) limits["memory"] = options.memory;
  if (options.gpus > 0) limits["nvidia.com/gpu"] = absl::StrCat(options.gpus);
  return limits;
}

Json Container(const ManifestOptions& options, const std::string& name, const Pod& pod) {
  Json container = {
      {"name", name}, {"image", options.image}, {"command", Json::array({"oneflow"})}, {"args", pod.arguments}};
  if (!pod.environment.empty()) container["env"] = pod.environment;
  if (!pod.mounts.empty()) container["volumeMounts"] = pod.mounts;
  container["securityContext"] = {{"allowPrivilegeEscalation", false}};
  return container;
}

Json PodSpec(Json container, const Pod& pod) {
  Json spec = {{"terminationGracePeriodSeconds", 60}};  // a job that is ended may save
  spec["containers"] = Json::array({std::move(container)});
  if (!pod.volumes.empty()) spec["volumes"] = pod.volumes;
  return spec;
}

Json PortOf(const char* field) { return {{"name", "grpc"}, {field, kPort}}; }

Json Object(const std::string& version, const std::string& kind, Json metadata, Json spec) {
  return {{"apiVersion", version}, {"kind", kind}, {"metadata", std::move(metadata)}, {"spec", std::move(spec)}};
}

std::string SchedulerName(const ManifestOptions& options) { return absl::StrCat(options.name, "-scheduler"); }

Json SchedulerService(const ManifestOptions& options) {
  return Object("v1", "Service", Metadata(options, SchedulerName(options)),
                {{"selector", Labels(options, "scheduler")}, {"ports", Json::array({PortOf("port")})}});
}

Json StoreClaim(const ManifestOptions& options) {
  return Object(
      "v1", "PersistentVolumeClaim", Metadata(options, SchedulerName(options)),
      {{"accessModes", Json::array({"ReadWriteOnce"})}, {"resources", {{"requests", {{"storage", "10Gi"}}}}}});
}

Json SchedulerDeployment(const ManifestOptions& options) {
  Pod pod = BasicPod(options);
  pod.arguments = {"scheduler", absl::StrCat("--address=0.0.0.0:", kPort),
                   absl::StrCat("--db=", kStoreFolder, "/jobs.db")};
  ListenInTheCluster(options, pod);
  pod.Mount("store", kStoreFolder, {{"persistentVolumeClaim", {{"claimName", SchedulerName(options)}}}});
  Json container = Container(options, "scheduler", pod);
  container["ports"] = Json::array({PortOf("containerPort")});
  container["readinessProbe"] = {{"tcpSocket", {{"port", kPort}}}};
  const Json labels = Labels(options, "scheduler");
  return Object("apps/v1", "Deployment", Metadata(options, SchedulerName(options)),
                {{"replicas", 1},
                 {"strategy", {{"type", "Recreate"}}},  // the store has one scheduler at a time
                 {"selector", {{"matchLabels", labels}}},
                 {"template", {{"metadata", {{"labels", labels}}}, {"spec", PodSpec(std::move(container), pod)}}}});
}

Json DaemonSet(const ManifestOptions& options) {
  const int devices = options.gpus > 0 ? options.gpus : 1;
  Pod pod = ComputingPod(options);
  pod.environment.push_back(FromField("NODE_NAME", "spec.nodeName"));
  pod.environment.push_back(FromField("POD_IP", "status.podIP"));
  pod.arguments = {"daemon",
                   absl::StrCat("--scheduler=", SchedulerName(options), ":", kPort),
                   "--name=$(NODE_NAME)",
                   "--peer-host=$(POD_IP)",
                   absl::StrCat("--cpu-devices=", options.gpus > 0 ? 0 : devices),
                   absl::StrCat("--cuda-devices=", options.gpus > 0 ? devices : 0)};
  if (options.cpus > 0) pod.arguments.push_back(absl::StrCat("--cores=", options.cpus));
  if (!options.claim.empty()) pod.arguments.push_back(absl::StrCat("--allow-path=", kDataFolder));
  ListenInTheCluster(options, pod);
  Json container = Container(options, "daemon", pod);
  if (const Json limits = Limits(options); !limits.empty()) container["resources"] = {{"limits", limits}};
  const Json labels = Labels(options, "daemon");
  return Object("apps/v1", "DaemonSet", Metadata(options, absl::StrCat(options.name, "-daemon")),
                {{"selector", {{"matchLabels", labels}}},
                 {"template", {{"metadata", {{"labels", labels}}}, {"spec", PodSpec(std::move(container), pod)}}}});
}

// Names of pods lead to them before they are ready, since they get ready together.
Json PodNames(const ManifestOptions& options) {
  return Object("v1", "Service", Metadata(options, options.name),
                {{"clusterIP", "None"},
                 {"publishNotReadyAddresses", true},
                 {"selector", Labels(options, "task")},
                 {"ports", Json::array({PortOf("port")})}});
}

Json JobConfig(const ManifestOptions& options) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", Metadata(options, options.name)},
          {"data", {{"job.pbtxt", options.job}}}};
}

Json IndexedJob(const ManifestOptions& options) {
  Pod pod = ComputingPod(options);
  pod.Mount("job", kJobFolder, {{"configMap", {{"name", options.name}}}}, true);
  pod.environment.push_back({{"name", "ONEFLOW_TASKS"}, {"value", absl::StrCat(options.tasks)}});
  pod.environment.push_back({{"name", "ONEFLOW_FIRST"}, {"value", absl::StrCat(options.name, "-0.", options.name)}});
  pod.arguments = {"join", absl::StrCat(kJobFolder, "/job.pbtxt"), absl::StrCat("--port=", kPort)};
  ListenInTheCluster(options, pod);
  Json container = Container(options, "task", pod);
  if (const Json limits = Limits(options); !limits.empty()) container["resources"] = {{"limits", limits}};
  Json spec = PodSpec(std::move(container), pod);
  spec["subdomain"] = options.name;
  spec["restartPolicy"] = "Never";
  return Object("batch/v1", "Job", Metadata(options, options.name),
                {{"completionMode", "Indexed"},
                 {"completions", options.tasks},
                 {"parallelism", options.tasks},
                 {"backoffLimit", 3 * options.tasks},  // a task that dies takes the others with it
                 {"template", {{"metadata", {{"labels", Labels(options, "task")}}}, {"spec", std::move(spec)}}}});
}

// A text of lines that YAML can show as they are.
bool IsLines(absl::string_view text) {
  if (!absl::EndsWith(text, "\n") || absl::EndsWith(text, "\n\n") || absl::StartsWith(text, " ")) return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') return false;
  }
  return true;
}

// Behind what is there already, "key:" or "-".
void Append(const Json& json, int indent, std::string& out);

// JSON's scalars are YAML's.
void AppendScalar(const Json& json, int indent, std::string& out) {
  if (json.is_string() && IsLines(json.get_ref<const std::string&>())) {
    const std::string margin = absl::StrCat("\n", std::string(indent, ' '));
    const absl::string_view lines = json.get_ref<const std::string&>();
    absl::StrAppend(&out, " |", margin, absl::StrReplaceAll(lines.substr(0, lines.size() - 1), {{"\n", margin}}), "\n");
  } else {
    absl::StrAppend(&out, " ", json.dump(), "\n");
  }
}

void AppendEntries(const Json& json, int indent, bool first_is_inline, std::string& out) {
  bool is_inline = first_is_inline;
  for (const auto& [key, value] : json.items()) {
    if (!std::exchange(is_inline, false)) out.append(static_cast<size_t>(indent), ' ');
    absl::StrAppend(&out, key, ":");
    Append(value, indent + 2, out);
  }
}

void Append(const Json& json, int indent, std::string& out) {
  if (!json.is_structured() || json.empty()) return AppendScalar(json, indent, out);
  if (json.is_object()) {
    out += '\n';
    return AppendEntries(json, indent, /*first_is_inline=*/false, out);
  }
  out += '\n';
  for (const Json& item : json) {
    out.append(static_cast<size_t>(indent), ' ');
    out += '-';
    if (item.is_object() && !item.empty()) {
      out += ' ';
      AppendEntries(item, indent + 2, /*first_is_inline=*/true, out);
    } else {
      Append(item, indent + 2, out);
    }
  }
}

}  // namespace

KubernetesObjects Manifest(const ManifestOptions& options) {
  if (!options.job.empty()) return {JobConfig(options), PodNames(options), IndexedJob(options)};
  return {SchedulerService(options), StoreClaim(options), SchedulerDeployment(options), DaemonSet(options)};
}

std::string Yaml(const KubernetesObjects& objects) {
  std::string out;
  for (const Json& object : objects) {
    absl::StrAppend(&out, "---\n");
    AppendEntries(object, 0, /*first_is_inline=*/true, out);
  }
  return out;
}

}  // namespace oneflow
