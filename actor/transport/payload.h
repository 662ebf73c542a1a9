// A payload on its way, in pieces, so that messages need not wait behind all of it and no side needs room for it twice.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actor/message.h"
#include "actor/transport/shipments.h"
#include "oneflow_core/status.h"

namespace oneflow {

// The sending side. The runs of a slot are sent in place, unless they are many or short: then they are packed. A piece
// goes to one place. Where ragged rows are not all filled, the next piece goes to another place than right behind it.
class OutgoingPayload {
 public:
  struct Piece {
    int64_t offset = 0;               // where it lands, in the payload at its full size
    std::vector<Shipment::Run> runs;  // of memory that stays as long as this
    bool is_last = false;
  };
  OutgoingPayload(const Shipment& shipment, int32_t slot);

  int64_t num_bytes() const { return num_bytes_; }
  // The next piece, of at most `max_bytes`. REQUIRES: the last one was not the last.
  Piece Next(int64_t max_bytes);

 private:
  struct Placed {
    int64_t place = 0;
    Shipment::Run run;
  };
  void Append(int64_t place, Shipment::Run run);

  std::vector<Placed> runs_;
  std::string packed_;
  int64_t num_bytes_ = 0, taken_ = 0;
  size_t run_ = 0, at_ = 0;  // what is next
};

// The receiving side: how much of each payload has come.
class ArrivingPayloads {
 public:
  // Adds a piece to a payload of `of_bytes`; returns whether the payload is complete. InvalidArgument if the piece
  // exceeds the `room`, or if more comes than should.
  absl::StatusOr<bool> Add(int process, uint8_t use, const Message& message, int64_t offset, int64_t num_bytes,
                           int64_t of_bytes, int64_t room);
  // Whether some payload has come in part.
  bool any() const { return !come_.empty(); }

 private:
  using Key = std::tuple<int, uint8_t, uint16_t, int32_t, int32_t, int32_t>;
  std::map<Key, int64_t> come_;  // bytes
};

}  // namespace oneflow
