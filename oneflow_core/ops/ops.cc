#include "oneflow_core/ops/ops.h"

#include <utility>

#include "oneflow_core/growing_table.h"

namespace oneflow {
OpRegistry StandardOps() {
  OpRegistry registry;
#define ONEFLOW_ADD_OPS(Family) ops::Add##Family##Ops(registry);
  ONEFLOW_OP_FAMILIES(ONEFLOW_ADD_OPS)
#undef ONEFLOW_ADD_OPS
  for (const OpDef& op : GrowingTable<OpDef>()) registry.Add(op);
  return registry;
}

void AddStandardOp(OpDef op) { GrowingTable<OpDef>().push_back(std::move(op)); }

}  // namespace oneflow
