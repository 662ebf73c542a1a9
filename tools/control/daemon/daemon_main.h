// `oneflow daemon`: offers this machine's devices to a scheduler until SIGINT or SIGTERM.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "tools/control/security/paths.h"

namespace oneflow {

struct DaemonArgs {
  std::string scheduler = "127.0.0.1:7000";  // --scheduler: host:port
  std::string name;                          // --name: unique in the cluster; empty: the host's name
  std::optional<int> cpu_devices;            // --cpu-devices; default: one for each memory node of the machine
  std::optional<int> cuda_devices;           // --cuda-devices; default: all of the machine
  int cores = 0;                             // --cores; 0: all of the machine
  std::string work_dir;                      // --work-dir: workers' logs; empty: a temporary one, removed at the end
  std::string peer_host = "127.0.0.1";       // --peer-host: where workers listen for workers of other daemons
  std::string tls;                           // --tls: folder of the cluster's certificate; empty: plain text
  bool insecure = false;                     // --insecure: plain text is meant, also beyond loopback
  std::vector<std::string> allow_plugins;    // --allow-plugin: files, or folders of files, that jobs may load
  std::vector<std::string> allow_paths;      // --allow-path: folders that jobs may use; none: DaemonPaths()
  bool parent_only = false;                  // --parent-only: only its parent's signals count, for it and its workers
  double lost_after = 0;                     // --lost-after: seconds of a worker's silence; 0: DaemonOptions::silence
  // --one-job: its cluster is there for one job, which is not to wait for memory that nobody will free: its workers
  // start, and say what they lack.
  bool one_job = false;
  std::string metrics;  // --metrics-port: PORT or HOST:PORT; empty: none
  int ready_fd = -1;    // --ready-fd: descriptor that takes a line once it is registered
};

// What jobs of a daemon may use (tools/control/security/paths.h): what lies beneath its folders, apart from its
// certificates. If none is named, everything where only this machine gives it jobs, in plain text, and nothing
// elsewhere. "/" alone is everything, and nothing is kept from anyone: for a daemon whose jobs are its own user's.
// Plugins are those that it names, and no others.
absl::StatusOr<AllowedPaths> DaemonPaths(const DaemonArgs& args);

// The exit code: 0 if it was told to stop, 1 if it cannot serve or the scheduler refuses it, with the reason on stderr.
int DaemonMain(const DaemonArgs& args);

}  // namespace oneflow
