// What lies where others do, by provenance: gradients and updates.
#pragma once

#include "compiler/passes/placement/places.h"

namespace oneflow {

// Backward nodes lie with the forward node that they serve, those that serve a variable alone with it. Internal if
// there is neither. REQUIRES: forward nodes and what they read have places.
absl::Status PlaceBackward(Places& places);

// Update nodes lie with the variable that they overwrite, else with the one that they serve, else (norm, learning rate)
// on the lowest stage of what they read. Variables that only they read lie with the first of them.
void PlaceUpdate(Places& places);

}  // namespace oneflow
