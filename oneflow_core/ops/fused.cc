// Ops that do in one kernel what some ops of a model do in several. The compiler makes them where layouts are known;
// models do not name them, and no gradient flows through them. Each is what its parts are, but rounds once, what it
// gives. The table of fusions defines them (oneflow_core/fusions.h).
#include <map>

#include "oneflow_core/fused_form.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {

// In the order of the table: a row may call the whole of an earlier one.
void AddFusedOps(OpRegistry& registry) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<const Fusion*>> rows;
  for (const Fusion& fusion : Fusions()) {
    if (fusion.row->composite) continue;
    std::vector<const Fusion*>& of_op = rows[fusion.whole.op];
    if (of_op.empty()) names.push_back(fusion.whole.op);
    of_op.push_back(&fusion);
  }
  for (const std::string& name : names) registry.Add(FusedOp(rows.at(name), registry));
}

}  // namespace oneflow::ops
