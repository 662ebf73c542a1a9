#include "oneflow_core/ops/ops.h"

#include <utility>
#include <vector>

namespace oneflow {
namespace {

std::vector<OpDef>& Added() {
  static auto* const ops = new std::vector<OpDef>();
  return *ops;
}

}  // namespace

OpRegistry StandardOps() {
  OpRegistry registry;
#define ONEFLOW_ADD_OPS(Family) ops::Add##Family##Ops(registry);
  ONEFLOW_OP_FAMILIES(ONEFLOW_ADD_OPS)
#undef ONEFLOW_ADD_OPS
  for (const OpDef& op : Added()) registry.Add(op);
  return registry;
}

void AddStandardOp(OpDef op) { Added().push_back(std::move(op)); }

}  // namespace oneflow
