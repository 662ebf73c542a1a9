// The sizes of zones, as texts of plans and programs have them.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/zones.h"

namespace oneflow {

// "private 4096 bytes (variables 1024), shared 0 bytes (variables 0)": of a rank or a class of ranks; tiers only where
// something lies in them.
template <typename Rank>
std::string ZonesText(const Rank& rank) {
  std::string out;
  for (const ZoneKind& kind : kZones) {
    if (!kind.of_device && BytesOfZone(rank, kind.zone) == 0) continue;
    absl::StrAppend(&out, out.empty() ? "" : ", ", kind.name, " ", BytesOfZone(rank, kind.zone), " bytes (variables ",
                    VariableBytesOfZone(rank, kind.zone), ")");
  }
  return out;
}

}  // namespace oneflow
