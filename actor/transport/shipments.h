// What travels between hosts with `filled`: of which slots which bytes go to whom, and where what comes is put.
//
//   producer's rank                                    consumer's rank, another host
//   slot of a register   ──parcels, one behind the other──►   slot of its landing, then `filled`
//
// A landing has as many slots as its register, and a slot of the register is filled again only when every consumer has
// freed it; so there is room for whatever comes, and nobody asks before sending.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "actor/memory.h"
#include "actor/message.h"
#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// Where the next parcel of a payload begins, if the last one ends at `end`: so whatever it holds is aligned.
inline int64_t ParcelOffset(int64_t end) { return (end + 7) / 8 * 8; }

// The bytes of one shipment.
class Shipment {
 public:
  // `slots` is where slot 0 of the register lies. REQUIRES: the program passed CheckProgram.
  Shipment(const pb::Shipment& from, const pb::Register& reg, const char* slots);

  int64_t num_bytes() const { return num_bytes_; }
  // What a slot gives, in the order of the payload: as it lies in the slot, or gaps between parcels.
  using Run = absl::Span<const char>;
  void ForEachRun(int32_t slot, absl::FunctionRef<void(Run)> take) const;
  int64_t num_runs() const { return num_runs_; }
  void CopyTo(int32_t slot, char* target) const;

 private:
  struct Parcel {
    int64_t offset = 0, gap = 0;          // bytes; the gap is before it
    int64_t run_bytes = 0;                // that lie in a row
    std::vector<int64_t> extent, stride;  // of what is behind each other otherwise, strides in bytes
  };

  const char* slots_;
  int64_t slot_stride_;
  std::vector<Parcel> parcels_;
  int64_t num_bytes_ = 0, num_runs_ = 0;
};

// Where one register lands for one actor.
class Landing {
 public:
  Landing(const pb::Landing& from, const pb::Register& reg, char* slots)
      : data_(slots),
        slots_(reg.slots()),
        next_(reg.initially_filled() % reg.slots()),
        bytes_(from.slot_bytes()),
        stride_(from.slot_stride()),
        arrived_(reg.slots()) {}

  int64_t slot_bytes() const { return bytes_; }
  bool has_slot(int32_t slot) const { return slot >= 0 && slot < slots_; }
  char* slot(int32_t slot) const { return data_ + slot * stride_; }
  // The message's slot is complete. Large ones may overtake each other; calls `filled` with the messages of all whose
  // turn it is by now.
  void OnArrived(const Message& message, absl::FunctionRef<void(const Message&)> filled);

 private:
  char* data_;
  int32_t slots_, next_;
  int64_t bytes_, stride_;
  std::vector<std::optional<Message>> arrived_;  // by slot: before their turn
};

// Of one process, by plan, register and reading actor, as the program numbers them.
class Shipments {
 public:
  // REQUIRES: the program passed CheckProgram; memory of our ranks is in place.
  Shipments(const pb::Program& program, int process, const JobMemory& memory);

  // What goes with a message of ours; null: nothing.
  const Shipment* Of(const Message& message) const;
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
  void AddLandings(const pb::Program& program, int process, int plan, int actor, const JobMemory& memory);

  std::map<Key, Shipment> shipments_;
  std::map<Key, Landing> landings_;
  std::vector<std::vector<Message>> initial_;  // by plan
  std::vector<int64_t> from_peers_;            // by plan
};

}  // namespace oneflow
