// A worker of UCX: its context, its address, and its endpoints to others. Everything of the library that has to be set
// up and taken down is here.
//
// Not thread-safe: its user guards all calls.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Unavailable, with what was tried and UCX's words.
absl::Status UcxError(absl::string_view what, ucs_status_t status);

class UcxWorker {
 public:
  struct Options {
    std::string host;      // an address of this host, whose network card is used
    unsigned message = 0;  // the number of active messages
    // Called, inside Progress(), with each active message that has come, whole.
    ucp_am_recv_callback_t on_message = nullptr;
    void* of = nullptr;  // the first argument of `on_message`
  };
  // Unavailable, saying why, if the library finds no network to use.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Open(const Options& options);
  ~UcxWorker();

  // What peers connect to. Unavailable if there is none.
  absl::StatusOr<std::string> Address() const;
  // The connection to the worker of `whom`; `on_broken` is called once with `of` if it breaks, inside Progress().
  // Unavailable.
  absl::StatusOr<ucp_ep_h> Connect(const std::string& whom, const std::string& address, ucp_err_handler_cb_t on_broken,
                                   void* of);

  // Moves what can be moved; whether something was.
  bool Progress() { return ucp_worker_progress(worker_) > 0; }
  // Before one sleeps at fd(): false if something has come.
  bool Arm() { return ucp_worker_arm(worker_) == UCS_OK; }
  // Readable when something comes; owned by the worker.
  int fd() const { return fd_; }

 private:
  UcxWorker() = default;
  absl::Status Init(const Options& options);
  absl::Status Listen(const Options& options);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int fd_ = -1;
};

}  // namespace oneflow
