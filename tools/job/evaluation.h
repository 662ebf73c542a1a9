// Which batches one evaluation takes: of a whole validation set each sample once, the last batch being as small as it
// is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/options.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"

namespace oneflow {

// Names of graphs. What is computed on the rest is what the evaluation computes, on fewer samples.
inline constexpr char kEvaluate[] = "evaluate", kEvaluateRest[] = "evaluate_rest";

struct EvaluationCut {
  int64_t batches = 0;  // whole ones, of `batch` samples each
  int64_t batch = 0;
  int64_t rest = 0;  // samples behind those
};
// evaluate.batches, or as many as the split has that the graph "evaluate" reads; never more, since means are over
// samples that are there once. Opens the data to count them; errors of OpenSource. A graph that reads no data has
// evaluate.batches, or one.
absl::StatusOr<EvaluationCut> CutEvaluation(const pb::JobConfig& config, const Program& program);

// Gives the program a graph for the rest, `smaller` being the same program with batches of that many samples; if there
// is no whole batch, it takes the place of the other.
void AddRest(EvaluationCut& cut, Program smaller, Program& program);

// For a program that cannot be made with other batches: whole batches alone. What is left out is remarked;
// InvalidArgument if there is not one.
absl::Status LeaveRestOut(EvaluationCut& cut, std::vector<std::string>& remarks);

// How a worker runs it.
pb::RunPlan EvaluationRun(const EvaluationCut& cut);

}  // namespace oneflow
