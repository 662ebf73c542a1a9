// `oneflow scheduler`: serves until SIGINT or SIGTERM.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/control/scheduler/page_source.h"

namespace oneflow {

struct SchedulerArgs {
  std::string address = "127.0.0.1:7000";  // --address: host:port to listen on; port 0: any free one
  std::string db = "oneflow.db";           // --db: file of jobs and events
  int devices_per_user = 0;                // --devices-per-user: of a kind at a time; 0: all
  int64_t keep_jobs = 1000;                // --keep-jobs: how many jobs that ended are kept
  int64_t keep_days = 30;                  // --keep-days: and for how long
  std::string tls;                         // --tls: folder of the cluster's certificate; empty: plain text
  bool insecure = false;                   // --insecure: plain text is meant, also beyond loopback
  std::string tokens;                      // --tokens: file of them; empty: whoever reaches the port is an admin
  double lost_after = 0;                   // --lost-after: seconds of a daemon's silence; 0: SchedulerLimits::lease
  bool parent_only = false;                // --parent-only: only its parent's signals count
  std::string metrics;                     // --metrics-port: PORT or HOST:PORT; empty: none
  std::string page;                        // --page: the same
  std::vector<std::string> allow_paths;    // --allow-path: what the page may show of files; "/": everything
  int ready_fd = -1;                       // --ready-fd: takes the address, and of a page its URL, once it serves
};

// The exit code: 0 if it was told to stop, 1 if it cannot serve, with the reason on stderr. `serve_page`: what serves
// the page of --page.
int SchedulerMain(const SchedulerArgs& args, PageServer serve_page);

}  // namespace oneflow
