// Where variables lie: where an earlier graph of the program or the user has put them, else with who reads them first.
#pragma once

#include "compiler/passes/placement/places.h"

namespace oneflow {

// Variables that an earlier graph or the user has placed. InvalidArgument if a wish is outside the mesh.
absl::Status PlaceFixedVariables(Places& places);

// Each other variable lies with its first reader on the lowest stage; then forward nodes that overwrite variables, and
// all that they overwrite, move to the first of these. Fetches move to what they read, which need not travel for them.
// InvalidArgument, naming the node and both places, if an earlier graph or the user wants what a node overwrites, or
// the node itself, in two places. REQUIRES: forward nodes have places.
absl::Status PlaceReadVariables(Places& places);

// InvalidArgument, naming the node and both places, if a node would have to overwrite a variable from elsewhere.
absl::Status CheckMutations(const Places& places);

}  // namespace oneflow
