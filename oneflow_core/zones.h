// The zones of a rank: the kinds of memory in which registers and variables lie. Plans and programs name a zone by its
// number and have the sizes of all. Everything that differs between zones is a column of this table, for the compiler,
// the runtime and the tools: a new kind of memory is an enumerator and a row.
//
//   zone      on a device that the host can address    on a device with memory of its own
//   private   memory of the device                     memory of the device
//   shared    a memory file that peers map             memory of the device
//   host      memory of the host                       memory of the host that the device can copy from
//   disk      a file without a name                    a file without a name
//
// The last two are tiers (tiers.h): what lies there is brought to the device before anything computes with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace oneflow {

enum Zone : int { kPrivateZone = 0, kSharedZone = 1, kHostZone = 2, kDiskZone = 3 };

struct ZoneKind {
  Zone zone;
  const char* name;  // for people
  // Ranks of other processes of the host read it in place.
  bool peers_read;
  // It is the device's memory: kernels compute in it, and it counts against what the device has.
  bool of_device;
  // It has no addresses: it is read and written by whole blocks (kFileBlock), at multiples of them.
  bool in_file;
};

// Of memory in a file: what disks read and write at once.
inline constexpr int64_t kFileBlock = 4096;
// Host memory beside a file of so many bytes: buffers for transfers of both directions, and a digest of each block.
inline constexpr int64_t kFileBufferBytes = 16 << 20, kDigestBytes = 8;
constexpr int64_t BytesBesideFile(int64_t bytes) {
  return bytes == 0 ? 0 : kFileBufferBytes + (bytes + kFileBlock - 1) / kFileBlock * kDigestBytes;
}

// By number.
inline constexpr ZoneKind kZones[] = {
    {.zone = kPrivateZone, .name = "private", .peers_read = false, .of_device = true, .in_file = false},
    {.zone = kSharedZone, .name = "shared", .peers_read = true, .of_device = true, .in_file = false},
    {.zone = kHostZone, .name = "host", .peers_read = false, .of_device = false, .in_file = false},
    {.zone = kDiskZone, .name = "disk", .peers_read = false, .of_device = false, .in_file = true},
};
inline constexpr int kNumZones = static_cast<int>(std::size(kZones));
static_assert(
    [] {
      for (int i = 0; i < kNumZones; ++i) {
        if (kZones[i].zone != i) return false;
      }
      return true;
    }(),
    "rows are by number");

// Where scratch memory, pinned memory and landings lie: only acts of the rank touch them.
inline constexpr Zone kWorkZone = kPrivateZone;

// Whether a number from outside is one of a zone.
constexpr bool IsZone(int zone) { return zone >= 0 && zone < kNumZones; }
// REQUIRES: IsZone(zone).
constexpr const ZoneKind& ZoneKindOf(int zone) { return kZones[zone]; }
// For people; "?" if there is no such zone.
constexpr const char* ZoneName(int zone) { return IsZone(zone) ? ZoneKindOf(zone).name : "?"; }

// The sizes of the zones of a rank or of a class of ranks, which are messages with `zones`: a ZoneBytes by zone. Zones
// behind the last are empty.
template <typename Rank>
auto BytesOfZone(const Rank& rank, int zone) {
  return zone < rank.zones_size() ? rank.zones(zone).bytes() : 0;
}
// Of these, the part held by variables.
template <typename Rank>
auto VariableBytesOfZone(const Rank& rank, int zone) {
  return zone < rank.zones_size() ? rank.zones(zone).variable_bytes() : 0;
}
// For who writes them.
template <typename Rank>
auto& MutableZone(Rank& rank, int zone) {
  while (rank.zones_size() <= zone) rank.add_zones();
  return *rank.mutable_zones(zone);
}
// Of all zones of the device.
template <typename Rank>
auto BytesOfZones(const Rank& rank) {
  decltype(BytesOfZone(rank, 0)) bytes = 0;
  for (const ZoneKind& kind : kZones) bytes += kind.of_device ? BytesOfZone(rank, kind.zone) : 0;
  return bytes;
}

template <typename Rank>
auto VariableBytesOfZones(const Rank& rank) {
  decltype(VariableBytesOfZone(rank, 0)) bytes = 0;
  for (const ZoneKind& kind : kZones) bytes += kind.of_device ? VariableBytesOfZone(rank, kind.zone) : 0;
  return bytes;
}

}  // namespace oneflow
