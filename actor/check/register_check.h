// Checks the registers of a plan: producer, slots, memory and consumers.
#pragma once

#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// InvalidArgument if the registers of all plans together have more slots than the runtime keeps.
absl::Status CheckSlots(const pb::Program& program);

// InvalidArgument, saying which consumer and what, unless register `id` is consistent: its producer writes it, every
// consumer reads it as often as it is filled and can reach its memory, its slots lie in its zone, and what it sends to
// other hosts is consistent too (shipment_check.h). REQUIRES: the ranks were checked.
absl::Status CheckRegister(const pb::Program& program, const pb::Plan& plan, int id);

}  // namespace oneflow
