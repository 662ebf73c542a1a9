#include "actor/transport/payload.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// Longer lists are packed, and lists of shorter runs: the library sends only a few runs at a time.
constexpr size_t kMostRuns = 64;
constexpr int64_t kLeastRun = 16 << 10;  // mean of a list

}  // namespace

OutgoingPayload::OutgoingPayload(const Shipment& shipment, int32_t slot) {
  shipment.ForEachRun(slot, [&](int64_t place, Shipment::Run run) {
    num_bytes_ += static_cast<int64_t>(run.size());
    if (runs_.size() <= kMostRuns) Append(place, run);
  });
  const auto runs = static_cast<int64_t>(runs_.size());
  if (runs <= 1 || (runs_.size() <= kMostRuns && num_bytes_ >= runs * kLeastRun)) return;
  runs_.clear();
  packed_.resize(num_bytes_);
  char* to = packed_.data();
  shipment.ForEachRun(slot, [&](int64_t place, Shipment::Run run) {
    std::memcpy(to, run.data(), run.size());
    Append(place, {to, run.size()});
    to += run.size();
  });
}

// Runs that are contiguous here and in the landing are one.
void OutgoingPayload::Append(int64_t place, Shipment::Run run) {
  if (run.empty()) return;
  Placed* const last = runs_.empty() ? nullptr : &runs_.back();
  if (last != nullptr && last->run.end() == run.begin() &&
      last->place + static_cast<int64_t>(last->run.size()) == place) {
    last->run = {last->run.data(), last->run.size() + run.size()};
  } else {
    runs_.push_back({place, run});
  }
}

OutgoingPayload::Piece OutgoingPayload::Next(int64_t max_bytes) {
  const auto place = [this] { return runs_[run_].place + static_cast<int64_t>(at_); };
  Piece piece{.offset = run_ < runs_.size() ? place() : 0};
  for (int64_t left = max_bytes, end = piece.offset; left > 0 && run_ < runs_.size() && place() == end;) {
    const Shipment::Run run = runs_[run_].run.subspan(at_, left);
    const auto bytes = static_cast<int64_t>(run.size());
    piece.runs.push_back(run);
    left -= bytes, end += bytes, taken_ += bytes;
    at_ += run.size();
    if (at_ < runs_[run_].run.size()) break;
    ++run_;
    at_ = 0;
  }
  piece.is_last = taken_ == num_bytes_;
  return piece;
}

absl::StatusOr<bool> ArrivingPayloads::Add(int process, uint8_t use, const Message& message, int64_t offset,
                                           int64_t num_bytes, int64_t of_bytes, int64_t room) {
  const Key key{process, use, message.plan, message.actor, message.register_id, message.slot};
  int64_t& come = come_[key];
  if (offset < 0 || num_bytes > room || offset > room - num_bytes || come > of_bytes - num_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_bytes, " bytes at ", offset, " of ", room, "; ", come, " of ", of_bytes, " have come"));
  }
  come += num_bytes;
  if (come < of_bytes) return false;
  come_.erase(key);
  return true;
}

}  // namespace oneflow
