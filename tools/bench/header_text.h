// A text that every machine with a compiler has: the headers of the C++ library, one after another, by their paths.
#pragma once

#include <string>

#include "oneflow_core/status.h"

namespace oneflow {

// 3,660,000 bytes. NotFound if there are fewer.
absl::StatusOr<std::string> HeaderText();

}  // namespace oneflow
