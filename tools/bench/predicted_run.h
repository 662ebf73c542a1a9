// Predicts what a published run took: compiles it as a job and plays the plan on a virtual clock, as `oneflow plan
// simulate` does, with what the table of devices says of the machine. The job is what the published system ran: what
// only this engine does is left out, and told apart.
#pragma once

#include <string>

#include "oneflow_core/op.h"
#include "oneflow_core/status.h"
#include "tools/bench/published.h"

namespace oneflow {

struct Prediction {
  double step_seconds = 0;
  // What a device keeps of layers from forward to backward, where that is most.
  int64_t activation_bytes = 0;
  // Masks of dropout, a byte an element, which Megatron-LM keeps beside that and this engine draws again.
  int64_t mask_bytes = 0;
  // Both where this engine's own fusions keep less, as it would run the job.
  int64_t fused_bytes = 0;
  int64_t num_ranks = 0;
  double wall_seconds = 0;  // of predicting
};

// Trained on `text`. Errors of MakeJob, CompileJob and Simulate.
absl::StatusOr<Prediction> Predict(const PublishedRun& run, const std::string& text, const OpRegistry& ops);
// Without a step's time.
absl::StatusOr<Prediction> PredictMemory(const PublishedRun& run, const std::string& text, const OpRegistry& ops);

}  // namespace oneflow
