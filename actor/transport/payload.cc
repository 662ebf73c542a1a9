#include "actor/transport/payload.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// Longer lists of runs are packed.
constexpr int64_t kMostRuns = 64;

}  // namespace

OutgoingPayload::OutgoingPayload(const Shipment& shipment, int32_t slot) : num_bytes_(shipment.num_bytes()) {
  if (shipment.num_runs() > kMostRuns) {
    packed_.resize(num_bytes_);
    shipment.CopyTo(slot, packed_.data());
    runs_.push_back(packed_);
  } else {
    shipment.ForEachRun(slot, [&](Shipment::Run run) { runs_.push_back(run); });
  }
}

OutgoingPayload::Piece OutgoingPayload::Next(int64_t max_bytes) {
  Piece piece{.offset = offset_};
  for (int64_t left = max_bytes; left > 0 && run_ < runs_.size();) {
    const Shipment::Run run = runs_[run_].subspan(at_, left);
    piece.runs.push_back(run);
    left -= static_cast<int64_t>(run.size());
    offset_ += static_cast<int64_t>(run.size());
    at_ += run.size();
    if (at_ < runs_[run_].size()) break;
    ++run_;
    at_ = 0;
  }
  piece.is_last = offset_ == num_bytes_;
  return piece;
}

absl::StatusOr<bool> ArrivingPayloads::Add(int process, uint8_t use, const Message& message, int64_t offset,
                                           int64_t num_bytes, int64_t of_bytes) {
  const Key key{process, use, message.plan, message.actor, message.register_id, message.slot};
  int64_t& come = come_[key];
  if (offset < 0 || num_bytes > of_bytes || offset > of_bytes - num_bytes || come > of_bytes - num_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_bytes, " bytes at ", offset, " of ", of_bytes, ", of which ", come, " have come"));
  }
  come += num_bytes;
  if (come < of_bytes) return false;
  come_.erase(key);
  return true;
}

}  // namespace oneflow
