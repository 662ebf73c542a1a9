// Fuses ops by the rows of a table (oneflow_core/fusions.h). No pass before it knows fused ops.
#include "compiler/passes/apply_fusions.h"
#include "compiler/passes/passes.h"

namespace oneflow {

absl::StatusOr<bool> Fuse(Graph& graph, PassContext& context) {
  if (!context.options.fuse) return false;
  const CompileOptions& options = context.options;
  // An order of acts tells forward and gradients apart.
  const bool scheduled = graph.is_trained() && options.pipeline.num_ranks() > 0;
  const auto is_possible = [&](const FusionRow& row) {
    return !row.composite && !(row.across_roles && scheduled) && (!row.of_sums || options.adds_in_products) &&
           row.only.value_or(options.device) == options.device;
  };
  bool changed = false;
  while (ApplyFusions(graph, context.ops, is_possible)) changed = true;
  return changed;
}

}  // namespace oneflow
