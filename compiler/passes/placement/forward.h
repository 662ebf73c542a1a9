// Places the model itself. If there is a starting point (a wish, or variables that an earlier graph has placed on this
// mesh), every node follows its inputs; else the work is cut into stages.
#pragma once

#include "compiler/passes/placement/places.h"

namespace oneflow {

// InvalidArgument if a wish is outside the mesh, or if there are wishes and the job's stages have shares.
absl::Status PlaceForward(Places& places);

}  // namespace oneflow
