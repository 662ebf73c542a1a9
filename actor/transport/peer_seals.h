// The seals of one process and its peers (seal.h): whether data is sealed at all, and with whose key.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "actor/transport/seal.h"
#include "oneflow_core/status.h"

namespace oneflow {

class PeerSeals {
 public:
  // Nothing is sealed.
  PeerSeals(int process, int num_processes);
  // From now on everything is. ResourceExhausted if there are no random bytes.
  absl::Status Begin();
  // Ours, with which peers seal; empty: nothing is sealed.
  const std::string& key() const { return key_; }

  // The key of a peer, before anything is sent or opened. InvalidArgument if it is none.
  absl::Status Connect(int process, absl::string_view their_key);
  // Null if what goes to the peer is not sealed.
  Sealer* To(int process);
  // The opened text, or `text` if nothing is sealed. PermissionDenied if that sender has not sealed it for us.
  absl::StatusOr<absl::string_view> Open(int from, uint64_t number, absl::string_view beside, absl::string_view text);

 private:
  const int process_;
  std::string key_;
  std::vector<std::optional<Sealer>> sealers_;  // by process
  std::vector<std::optional<Opener>> openers_;  // by process
};

}  // namespace oneflow
