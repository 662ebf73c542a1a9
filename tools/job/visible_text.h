#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace oneflow {

// A model writes whatever bytes it likes; a terminal would obey some, and readers of UTF-8 choke on others. Those are
// written as \x1b; lines and tabs stay.
std::string VisibleText(absl::string_view text);

bool IsUtf8(absl::string_view text);

}  // namespace oneflow
