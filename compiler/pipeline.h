// The pass pipeline: a table of named functions from graph to graph, run in order. After every pass the runner verifies
// the graph, so that a broken invariant is blamed on the pass that broke it, and puts the pass's name on any error.
#pragma once

#include "absl/types/span.h"
#include "compiler/boxed_graph.h"
#include "compiler/passes/passes.h"

namespace oneflow {

struct Pass {
  const char* name;                                                 // as in --dump-after=NAME
  absl::StatusOr<bool> (*run)(Graph& graph, PassContext& context);  // true: it changed something
};

// All passes in order: what RunPasses runs.
absl::Span<const Pass> Pipeline();

// Runs `passes` on `graph`. Errors are those of the passes, with "pass 'x'" before them; Internal if a pass leaves a
// graph that VerifyGraph refuses, or drops a loss.
absl::Status RunPipeline(absl::Span<const Pass> passes, Graph& graph, PassContext& context,
                         const PassObserver& observer);

}  // namespace oneflow
