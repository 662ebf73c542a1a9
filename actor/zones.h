// The zones of a rank: the kinds of memory in which registers and variables lie. Everything that differs between zones
// is a column of this table, so a new kind of memory is a value of pb::Zone, its sizes in pb::Rank, and a row.
//
//   zone      on a device that the host can address    on a device with memory of its own
//   private   memory of the device                     memory of the device
//   shared    a memory file that peers map             memory of the device
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "proto/program.pb.h"

namespace oneflow {

struct ZoneKind {
  pb::Zone zone;
  const char* name;  // in errors
  // Ranks of other processes of the host read it in place.
  bool peers_read;
  int64_t (pb::Rank::*bytes)() const;           // of a rank
  int64_t (pb::Rank::*variable_bytes)() const;  // of these, the part held by variables
};

// By number.
inline constexpr ZoneKind kZones[] = {
    {.zone = pb::PRIVATE,
     .name = "private",
     .peers_read = false,
     .bytes = &pb::Rank::private_bytes,
     .variable_bytes = &pb::Rank::private_variable_bytes},
    {.zone = pb::SHARED,
     .name = "shared",
     .peers_read = true,
     .bytes = &pb::Rank::shared_bytes,
     .variable_bytes = &pb::Rank::shared_variable_bytes},
};
static_assert(std::size(kZones) == pb::Zone_ARRAYSIZE, "every zone has a row");
static_assert(
    [] {
      for (size_t i = 0; i < std::size(kZones); ++i) {
        if (kZones[i].zone != static_cast<pb::Zone>(i)) return false;
      }
      return true;
    }(),
    "rows are by number");

// Where scratch memory and landings lie: only acts of the rank touch them.
inline constexpr pb::Zone kWorkZone = pb::PRIVATE;

// REQUIRES: pb::Zone_IsValid(zone).
constexpr const ZoneKind& KindOf(pb::Zone zone) { return kZones[zone]; }
inline int64_t ZoneBytes(const pb::Rank& rank, pb::Zone zone) { return (rank.*KindOf(zone).bytes)(); }
// Of all zones of the rank.
inline int64_t ZoneBytes(const pb::Rank& rank) {
  int64_t bytes = 0;
  for (const ZoneKind& kind : kZones) bytes += (rank.*kind.bytes)();
  return bytes;
}

}  // namespace oneflow
