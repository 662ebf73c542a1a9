// What travels between hosts with `filled`: of which slots which bytes go to whom, and where what comes is put.
//
//   producer's rank                                    consumer's rank, another host
//   slot of a register   ──parcels, one behind the other──►   slot of its landing, then `filled`
//
// A landing has as many slots as its register, and a slot of the register is filled again only when every consumer has
// freed it; so there is room for whatever comes, and nobody asks before sending.
//
// Of ragged rows there is room for all, and those that are filled are sent. How many that is, their counts say, which
// are in a register that the same consumer reads. Where that is filled later the rows wait for it, as the consumer
// would; from then on the counts stay as they are until it has read both.
//
//   | rows of groups 0, 1, 2 |      |      | counts |    the payload at its full size
//   | 0 | 1 1 | 2 |                        | counts |    what comes: whoever reads it finds the rows by the counts
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
#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// Where the next parcel of a payload begins, if the last one ends at `end`: so whatever it holds is aligned.
inline int64_t ParcelOffset(int64_t end) { return (end + 7) / 8 * 8; }

// The bytes of one shipment.
class Shipment {
 public:
  // Where the counts of a parcel's rows lie on the producer's rank: those of so many fillings of the register in a row
  // are one slot.
  struct Counts {
    const char* slots = nullptr;  // slot 0
    int64_t slot_stride = 0;
    int32_t num_slots = 1;
    int64_t fillings = 1;
    int32_t initial = 0;           // slots that are filled at the beginning
    Shipment* shipment = nullptr;  // which has them for the same consumer; null: they are always there
  };
  // `slots` is where slot 0 of the register lies. REQUIRES: the program passed CheckProgram.
  Shipment(const pb::Shipment& from, const pb::Register& reg, const char* slots);
  // Others keep pointers to it.
  Shipment(const Shipment&) = delete;
  // Of the rows of a parcel; before anything is sent. REQUIRES: the parcel has such.
  void CountRows(int parcel, const Counts& counts);

  // Whether it matters which filling of the register is sent: it has rows that are counted, or counts of such.
  bool is_counted() const { return has_rows_ || !counted_.empty(); }
  // The slot of the message is filled: sends what is to be sent now, of this shipment and of those that it has counts
  // of.
  using Send = absl::FunctionRef<void(const Message&, const Shipment&)>;
  void OnFilled(const Message& message, Send send);

  // What a slot gives, in the order of the payload: as it lies in the slot, or gaps between parcels; and where it
  // lands. REQUIRES: where rows are counted, it is what is being sent.
  using Run = absl::Span<const char>;
  void ForEachRun(int32_t slot, absl::FunctionRef<void(int64_t place, Run)> take) const;
  // To `target`, where it lands.
  void CopyTo(int32_t slot, char* target) const;

 private:
  struct Parcel {
    int64_t offset = 0;          // in the slot
    int64_t gap = 0, place = 0;  // where it lands, and the gap before that which is sent
    int64_t element_bytes = 0;
    std::vector<int64_t> extent, stride;  // strides in bytes
    std::optional<RowBox> rows;           // of which those that are filled are sent
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
  std::vector<Shipment*> counted_;  // whose rows it has counts of
  std::deque<Message> waiting_;     // filled and not sent
  int64_t filled_ = 0, sent_ = 0;
};

// Where one register lands for one actor.
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

  // What comes for a slot has so many bytes, or fewer where not all ragged rows are filled.
  int64_t slot_bytes() const { return bytes_; }
  int64_t least_bytes() const { return bytes_ - ragged_bytes_; }
  bool has_slot(int32_t slot) const { return slot >= 0 && slot < slots_; }
  char* slot(int32_t slot) const { return data_ + slot * stride_; }
  // The message's slot is complete. Large ones may overtake each other; calls `filled` with the messages of all whose
  // turn it is by now.
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

  // What goes with a message of ours; null: nothing.
  Shipment* Of(const Message& message);
  // A slot of `shipment` is filled, which goes with the message. Calls `send` for all that is to be sent now, to the
  // same consumer: this, unless it waits for counts, and what has waited for this. Any thread.
  void OnFilled(const Message& message, Shipment& shipment, Shipment::Send send);
  // Where what comes with a message for one of our actors is put; null: nothing comes.
  Landing* LandingOf(const Message& message);
  // Of our registers that are filled when a plan begins, the messages that their shipments would come with.
  const std::vector<Message>& InitialOf(int plan) const { return initial_[plan]; }
  // How many such come from other processes.
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
