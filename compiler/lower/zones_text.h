// The sizes of zones, as texts of plans and programs have them.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/zones.h"

namespace oneflow {

// "private 4096 bytes (variables 1024), shared 0 bytes (variables 0)": of a rank or a class of ranks.
template <typename Rank>
std::string ZonesText(const Rank& rank) {
  return absl::StrJoin(kZones, ", ", [&](std::string* out, const ZoneKind& kind) {
    absl::StrAppend(out, kind.name, " ", BytesOfZone(rank, kind.zone), " bytes (variables ",
                    VariableBytesOfZone(rank, kind.zone), ")");
  });
}

}  // namespace oneflow
