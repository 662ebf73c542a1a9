// Places variables: where an earlier graph of the program or the user has put them, else with their first reader.
#pragma once

#include "compiler/passes/placement/places.h"

namespace oneflow {

// Variables that an earlier graph or the user has placed. InvalidArgument if a wish is outside the mesh.
absl::Status PlaceFixedVariables(Places& places);

// Each other variable lies with its first reader on the lowest stage, or with the point that is read instead. Then
// forward nodes that overwrite variables, and all that they overwrite, move to the first of these. Fetches move to
// their inputs, which then need not travel. InvalidArgument, naming the node and both places, if an earlier graph or
// the user wants the node, or variables that it overwrites, in two places. REQUIRES: forward nodes have places.
absl::Status PlaceReadVariables(Places& places);

// InvalidArgument, naming the node and both places, if a node would have to overwrite a variable on another place.
absl::Status CheckMutations(const Places& places);

}  // namespace oneflow
