// Data and constants, and annotations of them, are pure functions. They do not travel; each reading place makes its
// own.
#pragma once

#include "compiler/passes/placement/places.h"

namespace oneflow {

// Gives every place that reads a source a copy of it; the first reader gets the source itself. REQUIRES: all other
// nodes have places.
void CopySources(Places& places);

}  // namespace oneflow
