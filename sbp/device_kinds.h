// What is known of kinds of devices, for prices: a table with the source of each number. `oneflow bench device`
// measures the machine that it runs on, and a job may name a table of its own.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/mesh.h"
#include "sbp/topology.h"

namespace oneflow {

const std::vector<DeviceSpeeds>& KnownDevices();

// The row of that name in `table`; null if there is none.
const DeviceSpeeds* FindDevice(const std::vector<DeviceSpeeds>& table, absl::string_view kind);

// What a device is taken for that nothing more is said of: "cpu" or "h100-sxm".
const DeviceSpeeds& UsualDevice(DeviceKind device);

}  // namespace oneflow
