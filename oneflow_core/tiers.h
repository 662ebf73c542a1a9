// The tiers of a placement below its devices' own memory: where values may lie that nothing computes with for a while.
// A new tier is an enumerator and a row; its memory is a zone, and what is copied from and to it is on queues of its
// own.
//
//   variable in a tier ──from_tier──► value on the device ──► ops that read or overwrite it ──► store_in_tier
//   value of forward ──to_tier──► value in a tier ──from_tier──► value on the device ──► backward
//
// The three are ops of kinds kLoad and kStore, with the tier's name as their attribute `tier`; so has a variable that
// is kept in one.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"

namespace oneflow {

struct TierKind {
  const char* name;
  Zone zone;
  Queue load;   // of copies from it to the device
  Queue store;  // and of those from the device to it
};

inline constexpr TierKind kTiers[] = {
    {.name = "host", .zone = kHostZone, .load = kLoadQueue, .store = kStoreQueue},
    {.name = "disk", .zone = kDiskZone, .load = kReadQueue, .store = kWriteQueue},
};

// Null if there is no such tier.
inline const TierKind* FindTier(absl::string_view name) {
  for (const TierKind& kind : kTiers) {
    if (name == kind.name) return &kind;
  }
  return nullptr;
}

// The attribute of nodes that keep, load or store something in a tier.
inline constexpr char kTierAttr[] = "tier";

// The tier that a node's attributes name; null: none.
inline const TierKind* TierOf(const AttrMap& attrs) { return FindTier(attrs.String(kTierAttr)); }

// For people: "disk"; "device" where it is null.
inline const char* TierName(const TierKind* tier) { return tier == nullptr ? "device" : tier->name; }

}  // namespace oneflow
