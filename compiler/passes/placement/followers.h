// Places nodes beside others, by provenance: gradients and updates.
#pragma once

#include "compiler/passes/placement/places.h"

namespace oneflow {

// Backward nodes lie with the forward node that they serve; those that serve only a variable lie with it. Internal if
// there is neither. REQUIRES: forward nodes and their inputs have places.
absl::Status PlaceBackward(Places& places);

// Update nodes lie with the variable that they overwrite, else with the one that they serve, else (norm, learning rate)
// on the lowest stage of their inputs. Variables that only they read lie with the first of them.
void PlaceUpdate(Places& places);

}  // namespace oneflow
