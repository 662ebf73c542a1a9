// How a daemon gives its workers the cluster's identity: in memory, by a descriptor that they inherit. No file that a
// worker could open has the key in it, so no job can be led to read it.
#pragma once

#include "actor/transport/tls.h"
#include "oneflow_core/status.h"

namespace oneflow {

class PassedIdentity {
 public:
  // Unavailable if the system has no memory for it.
  static absl::StatusOr<PassedIdentity> Make(const TlsIdentity& identity);
  ~PassedIdentity();
  PassedIdentity(PassedIdentity&& other) noexcept;
  PassedIdentity& operator=(PassedIdentity&&) = delete;

  // To be passed to one child as ChildOptions::passed_fd.
  int fd() const { return fd_; }

 private:
  explicit PassedIdentity(int fd) : fd_(fd) {}
  int fd_;
};

// In the child: reads what was passed, and closes the descriptor. Empty if `fd` is negative. DataLoss if it holds no
// identity.
absl::StatusOr<TlsIdentity> TakeIdentity(int fd);

}  // namespace oneflow
