// Tables of devices as files: protobuf text (proto/device_table.proto), one row per kind of device.
#pragma once

#include <string>
#include <vector>

#include "sbp/topology.h"

namespace oneflow {

// NotFound if there is no such file; InvalidArgument naming file and line, or row and field, if it is malformed, a
// speed is not positive, or a kind comes twice.
absl::StatusOr<std::vector<DeviceSpeeds>> ReadDeviceTable(const std::string& path);

// The text of a table, which ReadDeviceTable reads back.
std::string DeviceTableText(const std::vector<DeviceSpeeds>& table);

}  // namespace oneflow
