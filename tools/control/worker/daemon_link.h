// A worker's line to its daemon: what it is told comes in, what it reports goes out, and a broken line ends the
// process.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "actor/transport/tls.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/control/worker/report_queue.h"

namespace oneflow {

class DaemonLink {
 public:
  // Says hello to the daemon at `address`. `on_lost` is called on a thread of the link if the line breaks before
  // Close(). `waits` is called on a thread of the link whenever the daemon asks what the worker waits for. Unavailable
  // if nobody answers within a few seconds. `identity`: ours, if the daemon has one.
  static absl::StatusOr<std::unique_ptr<DaemonLink>> Open(const std::string& address, const pb::WorkerHello& hello,
                                                          std::function<void(absl::Status)> on_lost,
                                                          std::function<pb::ProcessWaits()> waits,
                                                          const TlsIdentity& identity = {});
  // Close().
  virtual ~DaemonLink() = default;

  // The next thing the daemon says, but for questions. DeadlineExceeded after `timeout`, Unavailable if the line is
  // broken.
  virtual absl::StatusOr<pb::ToWorker> Receive(absl::Duration timeout) = 0;

  // Whether the daemon has said that training shall end here. Any thread.
  virtual const std::atomic<bool>& asked_to_stop() const = 0;

  // How often it has said that a checkpoint shall be written. Any thread.
  virtual const std::atomic<int64_t>& asked_to_save() const = 0;

  // Reports go out in the order in which they come in here. Thread-safe, at once.
  virtual ReportQueue& reports() = 0;

  // Returns when the daemon has read all reports (true) or the line is broken or silent (false).
  virtual bool Close() = 0;
};

}  // namespace oneflow
