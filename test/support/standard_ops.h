// The standard ops, as every test of graphs takes them.
#pragma once

#include "oneflow_core/ops/ops.h"

namespace oneflow::testing {

inline const OpRegistry& Ops() {
  static const OpRegistry* const kOps = new OpRegistry(StandardOps());
  return *kOps;
}

}  // namespace oneflow::testing
