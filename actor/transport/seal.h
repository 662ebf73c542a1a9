// Seals data between hosts (AES-256-GCM): nobody else can read it, change it or repeat it unnoticed.
//
//   key      32 random bytes of the receiver, which its peers hear over TLS
//   nonce    sender and number: a sender numbers its texts for one receiver from 1 on, so no two are alike
//   sealed   as many bytes as the text, and a tag of 16; clear text beside it is authenticated as well
//
// Not thread-safe.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "oneflow_core/status.h"

struct evp_cipher_ctx_st;

namespace oneflow {

inline constexpr size_t kSealKeyBytes = 32;
inline constexpr size_t kSealTagBytes = 16;

// ResourceExhausted if there are no random bytes.
absl::StatusOr<std::string> MakeSealKey();

// From one sender to one receiver.
class Sealer {
 public:
  // InvalidArgument if it is no key.
  static absl::StatusOr<Sealer> Make(absl::string_view receivers_key, int32_t sender);

  // The number of the next text.
  uint64_t next_number() const { return number_ + 1; }
  // Puts the pieces together, sealed, at `to`, and the tag behind them; `beside` goes in the clear.
  absl::Status Seal(absl::string_view beside, absl::Span<const absl::string_view> pieces, char* to);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  explicit Sealer(int32_t sender) : sender_(sender) {}

  int32_t sender_;
  uint64_t number_ = 0;
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

// The numbers that have come: each counts once. They may come in another order, as long as none is very late.
class SeenNumbers {
 public:
  static constexpr uint64_t kWindow = 4096;
  // Whether it comes for the first time; false too if so many later ones have come that nobody knows.
  bool Take(uint64_t number);

 private:
  uint64_t last_ = 0;
  std::bitset<kWindow> seen_;  // by number modulo kWindow, of the last kWindow numbers
};

// Of one receiver, for one sender.
class Opener {
 public:
  static absl::StatusOr<Opener> Make(absl::string_view own_key, int32_t sender);

  // The opened text, in memory of ours until the next call. PermissionDenied if the sender has not sealed this with
  // this number and `beside`, or if it has come before.
  absl::StatusOr<absl::string_view> Open(uint64_t number, absl::string_view beside, absl::string_view sealed);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  explicit Opener(int32_t sender) : sender_(sender) {}

  int32_t sender_;
  SeenNumbers seen_;
  std::string text_;
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace oneflow
