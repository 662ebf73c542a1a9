// Data and constants, and annotations of them, are pure functions: instead of travelling they are made wherever they
// are read.
#pragma once

#include "compiler/passes/placement/places.h"

namespace oneflow {

// Gives every place that reads a source a copy of it; the first reader's is the source itself. REQUIRES: all other
// nodes have places.
void CopySources(Places& places);

}  // namespace oneflow
