// Slots of registers as a job's file names them (proto/slots.proto), and as `oneflow plan credits --save` writes it.
#pragma once

#include <map>
#include <string>

#include "oneflow_core/status.h"

namespace oneflow {

// By plan and register.
using SlotsByName = std::map<std::string, std::map<std::string, int>>;

// NotFound if the file cannot be read; InvalidArgument, with its name and place, if it is malformed or names something
// twice.
absl::StatusOr<SlotsByName> ReadSlots(const std::string& path);

// Inverse of ReadSlots: a line per register.
std::string SlotsText(const SlotsByName& slots);

}  // namespace oneflow
