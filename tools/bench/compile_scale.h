// compile-scale: what compiling takes when models and clusters are large. Nothing is run; every case goes the way that
// a job goes, with everything that is proved on the way.
//
//   gpt3-dp1, -dp4, -dp32    GPT-3: 96 layers of width 12,288 on pp12 x tp8, on 96 to 3,072 ranks
//   gpt3-ramp                gpt3-dp32 with a ramp: steps of 8 sizes, a plan for each
//   gpt3-half                48 layers of it, dp1: twice the layers should take about twice the time
//   gpt1t                    128 layers of width 25,600 on pp64 x dp6 x tp8: 3,072 ranks
//   gpt1t-interleaved, -zb-h1     the same under schedules, whose orders are in the plan
//   gpt3-zero3, gpt1t-zero1, -zero3     state in parts along dp
//   random                   a random graph, 100,000 ops when it is laid out, on dp128 x tp8: no layers that repeat
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "compiler/options.h"
#include "oneflow_core/op.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct ScaleCase {
  const char* name;
  const char* title;
  int pp, dp, tp;
  int micro_batches;
  int64_t layers, width, heads;  // of a GPT; 0 layers: a random graph
  int ops;                       // of a random graph, as written; training makes several of each
  const char* schedule;          // of its pipeline; empty: what follows from credits
  uint32_t seed = 1;             // of a random graph
  int sizes = 1;                 // of steps, as a ramp has them: the micro-batches in so many equal parts
  int zero_stage = 0;            // along dp; 0: copies
};

absl::Span<const ScaleCase> ScaleCases();

absl::StatusOr<Graph> ScaleGraph(const ScaleCase& it, const OpRegistry& ops);
// All on one host.
absl::StatusOr<CompileOptions> ScaleOptions(const ScaleCase& it);

// What compiling a case took. The figures of parts add up to what a user waits for.
struct ScaleFigures {
  std::string name, title;
  int ranks = 0, nodes = 0;   // nodes: of the boxed graph
  double graph_seconds = 0;   // writing the graph down, which the total does not contain
  double passes_seconds = 0;  // all but selection
  double selection_seconds = 0;
  double plan_seconds = 0;                            // from the boxed graph to a plan, proofs included
  int64_t peak_bytes = 0;                             // most memory that the process held meanwhile
  int64_t plan_bytes = 0, largest_program_bytes = 0;  // 0: no plan was made

  double seconds() const { return passes_seconds + selection_seconds + plan_seconds; }
};

absl::StatusOr<ScaleFigures> MeasureScale(const ScaleCase& scale_case, const OpRegistry& ops);

}  // namespace oneflow
