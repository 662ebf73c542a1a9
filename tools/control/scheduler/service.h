// The scheduler's process: what gRPC and HTTP ask of the core.
//
//   gRPC threads: gate ──► core.h: lock { state ──► effects } ──► effect_writer.h: store, then tell
//   HTTP: gate ──────────►                                            ├─► outboxes ──► one writer thread per daemon
//                                                                     └─► watchers, which read new events
//
// What is told is stored before: messages, answers to Submit and Cancel, and events wait for the transaction that has
// them. If the store cannot be written the scheduler ends, rather than promise what it might forget. What is damaged in
// it costs the job that it is of, and no other.
#pragma once

#include <memory>
#include <string>

#include "actor/transport/tls.h"
#include "oneflow_core/status.h"
#include "tools/control/process/child.h"
#include "tools/control/scheduler/page_source.h"
#include "tools/control/scheduler/state.h"
#include "tools/control/scheduler/store.h"
#include "tools/control/security/paths.h"

namespace oneflow {

struct SchedulerOptions {
  std::string address = "127.0.0.1:0";  // host:port to listen on; port 0: any free one
  std::string db_path;                  // SQLite file
  SchedulerLimits limits;
  EndedJobsRule keep;     // of ended jobs
  std::string metrics;    // where Prometheus finds /metrics: PORT or HOST:PORT; empty: nowhere
  std::string page;       // where browsers find the page: the same
  PageServer serve_page;  // serves it; needed if `page` says where
  AllowedPaths allowed;   // files that the page may show
  TlsIdentity identity;   // of a part of the cluster; empty: plain text
  bool insecure = false;  // plain text is meant, also where other machines reach it
  std::string tokens;  // file of those who may ask (tools/control/security/tokens.h); empty: whoever reaches the port
  std::string executable = kThisProgram;  // which explains plans for the page
};

class SchedulerServer {
 public:
  // Opens the store, takes up its jobs and serves. Errors of Store::Open, Listen, ServeMetrics and
  // `serve_page`; Unimplemented if a page is asked for and nothing serves it.
  static absl::StatusOr<std::unique_ptr<SchedulerServer>> Start(const SchedulerOptions& options);
  // Stop() if not yet called.
  virtual ~SchedulerServer() = default;

  // Where it is reached, with the actual port.
  virtual const std::string& address() const = 0;
  // Of the page, "http://127.0.0.1:8080/"; empty if there is none.
  virtual std::string page_url() const = 0;
  // Ends all calls and waits for them. Daemons see their session end. Any thread, but not one of a call.
  virtual void Stop() = 0;
  // Returns when Stop() is called from another thread (OK), or the store has failed (its error).
  virtual absl::Status Wait() = 0;
};

}  // namespace oneflow
