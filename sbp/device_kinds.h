// Speeds of known kinds of devices, with the source of each number, for prices. `oneflow bench device` measures the
// machine that it runs on. A job may name a table of its own.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/mesh.h"
#include "sbp/topology.h"

namespace oneflow {

const std::vector<DeviceSpeeds>& KnownDevices();

// The row of that name in `table`; null if there is none.
const DeviceSpeeds* FindDevice(const std::vector<DeviceSpeeds>& table, absl::string_view kind);

// The default for a device of unknown kind: "cpu" or "h100-sxm".
const DeviceSpeeds& UsualDevice(DeviceKind device);

}  // namespace oneflow
