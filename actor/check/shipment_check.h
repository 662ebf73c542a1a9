// Checks what travels between hosts: the shipments of a register, and the landings where an actor receives them.
//
//   register, host 0 ── shipment: parcels of each slot ══► landing of the reading actor, host 1
#pragma once

#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// InvalidArgument, saying which shipment and parcel, unless every parcel lies in a slot, counts of ragged rows travel
// to the same reader, and a landing of the program has room for exactly what comes. REQUIRES: producer and consumers of
// the register were checked.
absl::Status CheckShipments(const pb::Program& program, const pb::Plan& plan, const pb::Register& reg);

// InvalidArgument, saying which landing, unless the landings of `actor` lie in the work zone of its rank (zones.h),
// apart from each other, and are of inputs that other hosts fill. REQUIRES: the actor's rank and ports were checked.
absl::Status CheckLandings(const pb::Program& program, const pb::Plan& plan, const pb::Actor& actor);

}  // namespace oneflow
