#include "oneflow_core/ops/ops.h"

namespace oneflow {

OpRegistry StandardOps() {
  OpRegistry registry;
#define ONEFLOW_ADD_OPS(Family) ops::Add##Family##Ops(registry);
  ONEFLOW_OP_FAMILIES(ONEFLOW_ADD_OPS)
#undef ONEFLOW_ADD_OPS
  return registry;
}

}  // namespace oneflow
