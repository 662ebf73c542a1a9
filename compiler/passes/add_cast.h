#pragma once

#include "oneflow_core/graph.h"
#include "oneflow_core/unique_names.h"

namespace oneflow {

// Adds `value` as `dtype`. The cast serves what the value's producer serves; it runs where `reader` wishes to, and
// errors name the line of `reader`.
ValueId AddCast(Graph& graph, ValueId value, DType dtype, const Node& reader, UniqueNames& names);

}  // namespace oneflow
