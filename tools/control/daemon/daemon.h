// One per host: offers its devices to a scheduler and runs the workers that the scheduler asks for.
//
//   scheduler ◄══ DaemonSession ══ session thread ──► worker pool ──► fork/exec, one thread per child
//                        ▲                                ▲
//                   writer thread ◄── outbox ◄── reports ─┴─ WorkerSession (gRPC, loopback) ══ workers
//
// A session is the lease. When it breaks, workers run on while the daemon tries to come back: it says then which it
// has, kills those that the scheduler does not want to keep, and says again what the scheduler may not have stored.
// After `lease` without a session it kills them all. It tries to come back until it is stopped.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "actor/transport/tls.h"
#include "oneflow_core/status.h"
#include "tools/control/daemon/machine.h"
#include "tools/control/process/child.h"
#include "tools/control/security/paths.h"

namespace oneflow {

struct DaemonOptions {
  std::string scheduler;  // host:port
  std::string name;       // unique in the cluster
  std::string host;       // name of this machine
  // MemorySpace(), or OwnMemorySpace() of one that is confined: daemons that say the same of host and memory are on one
  // machine, which hosts of plans are.
  std::string memory;
  int cpu_devices = 1;
  int cuda_devices = 0;
  int cores = 1;
  MachineFacts machine;
  int64_t cuda_device_memory_bytes = 0;          // of the one that has least; 0: unknown
  std::string work_dir;                          // of workers' logs; must exist
  std::string peer_host = "127.0.0.1";           // where its workers listen for the workers of other daemons
  TlsIdentity identity;                          // of a part of the cluster; empty: plain text
  bool insecure = false;                         // plain text is meant, also where other machines reach it
  AllowedPaths allowed;                          // that jobs may use
  bool parent_only = false;                      // workers listen to no signals but ours
  std::string executable = kThisProgram;         // started as `oneflow worker ...`
  absl::Duration lease = absl::Seconds(60);      // without a scheduler, before workers are killed
  absl::Duration silence = absl::Seconds(2);     // of a worker, before it is taken for frozen and killed
  size_t report_bytes = size_t{64} << 20;        // kept for a scheduler; beyond that workers wait
  absl::Duration stop_grace = absl::Seconds(1);  // of a worker, from SIGTERM to SIGKILL
  std::function<void()> on_registered;           // after each Welcome; on the thread of Run()
  std::string metrics;                           // where Prometheus finds /metrics: PORT or HOST:PORT; empty: nowhere
};

class Daemon {
 public:
  // Listens for workers on loopback. Errors of Listen and of ServeMetrics, and for `peer_host` of MayListen
  // (tools/control/rpc/rpc.h).
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(DaemonOptions options);
  virtual ~Daemon() = default;

  // Serves until Stop(); then kills what runs and returns OK. InvalidArgument if the scheduler refuses what the daemon
  // says.
  virtual absl::Status Run() = 0;
  // Any thread.
  virtual void Stop() = 0;
};

}  // namespace oneflow
