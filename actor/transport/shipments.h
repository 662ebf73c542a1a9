// The data that travels between hosts with `filled`: which bytes of which slots go to whom, and where they land.
//
//   producer's rank                                    consumer's rank, another host
//   slot of a register   ──parcels, one behind the other──►   slot of its landing, then `filled`
//
// A landing has as many slots as its register, and a slot of the register is filled again only when every consumer has
// freed it. So there is always room, and nobody asks before sending.
//
// A landing has room for all ragged rows, and the filled ones are sent. Their number is in the counts, in a register
// that the same consumer reads. Rows whose counts are filled later wait for them, as the consumer would; from then on
// the counts stay until the consumer has read both.
//
//   | rows of groups 0, 1, 2 |      |      | counts |    the payload at its full size
//   | 0 | 1 1 | 2 |                        | counts |    the bytes sent: the reader finds the rows by the counts
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "actor/memory.h"
#include "actor/message.h"
#include "kernels/ragged.h"
#include "oneflow_core/frames.h"
#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// The bytes of one shipment.
class Shipment {
 public:
  // The place of the counts of a parcel's rows on the producer's rank: this many consecutive fillings of the register
  // share one slot of counts.
  struct Counts {
    const char* slots = nullptr;  // slot 0
    int64_t slot_stride = 0;
    int32_t num_slots = 1;
    int64_t fillings = 1;
    int32_t initial = 0;           // slots that are filled in the beginning
    Shipment* shipment = nullptr;  // the shipment of the counts to the same consumer; null: they are always there
  };
  // `slots` is the address of slot 0 of the register. REQUIRES: the program passed CheckProgram.
  Shipment(const pb::Shipment& from, const pb::Register& reg, const char* slots);
  // Others keep pointers to it.
  Shipment(const Shipment&) = delete;
  // Sets the counts of a parcel's rows, before anything is sent. REQUIRES: the parcel has rows.
  void CountRows(int parcel, const Counts& counts);

  // Whether the filling of the register matters: it has counted rows, or counts of such.
  bool is_counted() const { return has_rows_ || !counted_.empty(); }
  // The slot of the message is filled: sends everything that can be sent now, of this shipment and of those whose
  // counts it has.
  using Send = absl::FunctionRef<void(const Message&, const Shipment&)>;
  void OnFilled(const Message& message, Send send);

  // The bytes of a slot, in the order of the payload: in place, or gaps between parcels; and their place in the
  // landing. REQUIRES: if rows are counted, this slot is being sent.
  using Run = absl::Span<const char>;
  void ForEachRun(int32_t slot, absl::FunctionRef<void(int64_t place, Run)> take) const;
  // To `target`, where it lands.
  void CopyTo(int32_t slot, char* target) const;

 private:
  struct Parcel {
    int64_t offset = 0;          // in the slot
    int64_t gap = 0, place = 0;  // its place in the landing, and the gap before it
    int64_t element_bytes = 0;
    std::vector<int64_t> extent, stride;  // strides in bytes
    std::optional<RowBox> rows;           // of these the filled ones are sent
    Counts counts;                        // of the rows
  };
  void SendReady(Send send);
  bool CountsAreThere() const;
  const int32_t* CountsOf(const Parcel& parcel) const;
  void ForEachRunOfRows(const Parcel& parcel, const char* first, absl::FunctionRef<void(int64_t, Run)> take) const;

  const char* slots_;
  int64_t slot_stride_;
  std::vector<Parcel> parcels_;
  bool has_rows_ = false;
  std::vector<Shipment*> counted_;  // shipments whose rows it has counts of
  std::deque<Message> waiting_;     // filled and not sent
  int64_t filled_ = 0, sent_ = 0;
};

// The landing of one register for one actor.
class Landing {
 public:
  Landing(const pb::Landing& from, const pb::Register& reg, char* slots)
      : data_(slots),
        slots_(reg.slots()),
        next_(reg.initially_filled() % reg.slots()),
        bytes_(from.slot_bytes()),
        ragged_bytes_(from.ragged_bytes()),
        stride_(from.slot_stride()),
        arrived_(reg.slots()) {}

  // The bytes for a slot; fewer come where ragged rows are not all filled.
  int64_t slot_bytes() const { return bytes_; }
  int64_t least_bytes() const { return bytes_ - ragged_bytes_; }
  bool has_slot(int32_t slot) const { return slot >= 0 && slot < slots_; }
  char* slot(int32_t slot) const { return data_ + slot * stride_; }
  // The message's slot is complete. Large ones may overtake each other; calls `filled` with the messages of all that
  // are now next in order.
  void OnArrived(const Message& message, absl::FunctionRef<void(const Message&)> filled);

 private:
  char* data_;
  int32_t slots_, next_;
  int64_t bytes_, ragged_bytes_, stride_;
  std::vector<std::optional<Message>> arrived_;  // by slot: before their turn
};

// Of one process, by plan, register and reading actor, as the program numbers them.
class Shipments {
 public:
  // REQUIRES: the program passed CheckProgram; memory of our ranks is in place.
  Shipments(const pb::Program& program, int process, const JobMemory& memory);

  // The shipment of a message of ours; null: none.
  Shipment* Of(const Message& message);
  // A slot of `shipment`, which goes with the message, is filled. Calls `send` for everything that can now be sent to
  // the same consumer: this, unless it waits for counts, and shipments that waited for this. Any thread.
  void OnFilled(const Message& message, Shipment& shipment, Shipment::Send send);
  // The landing of a message for one of our actors; null: no data comes with it.
  Landing* LandingOf(const Message& message);
  // The messages of shipments of our registers that are filled when a plan begins.
  const std::vector<Message>& InitialOf(int plan) const { return initial_[plan]; }
  // The number of such messages from other processes.
  int64_t NumInitialFromPeers(int plan) const { return from_peers_[plan]; }
  bool empty() const { return shipments_.empty() && landings_.empty(); }

 private:
  using Key = std::tuple<int, int, int>;
  static Key KeyOf(const Message& message) { return {message.plan, message.register_id, message.actor}; }
  void AddShipments(const pb::Program& program, int process, int plan, int reg, const JobMemory& memory);
  // When all are there.
  void AddCounts(const pb::Program& program, int plan, int reg, const JobMemory& memory);
  void AddLandings(const pb::Program& program, int process, int plan, int actor, const JobMemory& memory);

  std::mutex counted_mu_;  // guards what counted shipments have filled and sent
  std::map<Key, Shipment> shipments_;
  std::map<Key, Landing> landings_;
  std::vector<std::vector<Message>> initial_;  // by plan
  std::vector<int64_t> from_peers_;            // by plan
};

}  // namespace oneflow
