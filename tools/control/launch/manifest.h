// What Kubernetes is told: a cluster that stays, or a cluster for one job.
//
//   a cluster that stays                         for one job
//   Service, Deployment: the scheduler           Service without an address of its own: names of pods
//   PersistentVolumeClaim: its store             ConfigMap: the job's config
//   DaemonSet: a daemon on every node            Job with an index for each pod: `oneflow join` in all of them
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace oneflow {

struct ManifestOptions {
  std::string image;
  std::string name = "oneflow";  // of all objects, or their beginning
  std::string space;             // namespace; empty: where it is applied
  int tasks = 0;                 // pods of a job
  int cpus = 0, gpus = 0;        // of a pod; 0: no limit, and none
  std::string memory;            // of a pod, "16Gi"; empty: no limit
  std::string claim;             // a PersistentVolumeClaim that all pods see under /data; empty: none
  std::string tls;               // a Secret that holds a folder of `certs init`; empty: plain text
  std::string job;               // text of a job's config; empty: a cluster that stays
};

using KubernetesObjects = std::vector<nlohmann::ordered_json>;
KubernetesObjects Manifest(const ManifestOptions& options);

// As documents of YAML 1.2. REQUIRES: texts are UTF-8.
std::string Yaml(const KubernetesObjects& objects);

}  // namespace oneflow
