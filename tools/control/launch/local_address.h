// Addresses by which the machines of a job reach one another.
#pragma once

#include <string>

#include "oneflow_core/status.h"

namespace oneflow {

// Of a name or an address, in numbers: "10.0.0.7", "fd00::7". NotFound naming it.
absl::StatusOr<std::string> NumericAddress(const std::string& host);
// Of this machine, on the way to another. Errors of NumericAddress; Unavailable if there is no way.
absl::StatusOr<std::string> AddressTowards(const std::string& host);
// "10.0.0.7:7000", "[fd00::7]:7000".
std::string WithPort(const std::string& numeric_address, int port);

}  // namespace oneflow
