// `oneflow worker`: one process of a job, started by a daemon.
//
//   hello ──► assignment ──► start ──► engine ──► phases ──► finished ──► dismissal ──► exit 0
//
// The exit code is 0 only after a dismissal. A failure is reported, written to stderr and ends with 1; a broken line to
// the daemon ends the process at once: nobody would hear what it does.
#pragma once

#include <cstdint>
#include <string>

namespace oneflow {

struct WorkerArgs {
  std::string daemon;                   // --daemon=host:port
  int64_t job = 0;                      // --job
  uint64_t attempt = 0;                 // --attempt
  std::string run;                      // --run=HEX: JobSpec.run, by which peers know the job
  int process = 0;                      // --process
  int processes = 1;                    // --processes, of the job
  std::string peer_host = "127.0.0.1";  // --peer-host: where it listens for its peers
  int identity_fd = -1;                 // --identity-fd: where its daemon passes the cluster's identity; -1: plain text
  bool parent_only = false;             // --parent-only: only the daemon's signals count
};

int WorkerMain(const WorkerArgs& args);

}  // namespace oneflow
