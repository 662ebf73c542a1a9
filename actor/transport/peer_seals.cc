#include "actor/transport/peer_seals.h"

#include "absl/strings/str_cat.h"

namespace oneflow {

PeerSeals::PeerSeals(int process, int num_processes)
    : process_(process), sealers_(num_processes), openers_(num_processes) {}

absl::Status PeerSeals::Begin() {
  OF_ASSIGN_OR_RETURN(key_, MakeSealKey());
  return absl::OkStatus();
}

absl::Status PeerSeals::Connect(int process, absl::string_view their_key) {
  if (key_.empty()) return absl::OkStatus();
  OF_ASSIGN_OR_RETURN_AT(sealers_[process], Sealer::Make(their_key, process_),
                         absl::StrCat("process ", process, " announces"));
  OF_ASSIGN_OR_RETURN(openers_[process], Opener::Make(key_, process));
  return absl::OkStatus();
}

Sealer* PeerSeals::To(int process) { return sealers_[process].has_value() ? &*sealers_[process] : nullptr; }

absl::StatusOr<absl::string_view> PeerSeals::Open(int from, uint64_t number, absl::string_view beside,
                                                  absl::string_view text) {
  if (key_.empty()) return text;
  if (openers_[from].has_value()) return openers_[from]->Open(number, beside, text);
  return absl::PermissionDeniedError(absl::StrCat("process ", from, " sends us nothing"));
}

}  // namespace oneflow
