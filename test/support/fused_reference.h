// The reference of a fused op: its parts one after another. It rounds once, what it gives; a part that reads such a
// value reads it rounded. What a cast gives is rounded too.
#pragma once

#include "oneflow_core/op.h"
#include "test/support/op_facts.h"

namespace oneflow::testing {

// REQUIRES: `op` is made of others and outlives the result.
ReferenceFn FusedReference(const OpDef& op);

}  // namespace oneflow::testing
